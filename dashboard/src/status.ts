import { byId, mark, say, show } from './dom.ts';
import { wholeSeconds } from './format.ts';
import type { LinkStatus } from './link.ts';
import type { Tone } from './verdict.ts';

/** How the page stands to the server, with the age of what it shows. */
export class Status {
  #now: LinkStatus = { is: 'connecting' };
  /** Since when the page shows what is no longer so. */
  #isLost = false;
  #lastAtMs: number | undefined;

  /** Numbers came. */
  heard(): void {
    // not the page's own clock: that one may stand still while a machine sleeps
    this.#lastAtMs = Date.now();
  }

  set(status: LinkStatus): void {
    const wasLost = this.#isLost;
    this.#now = status;
    // while the next attempt is under way, what was lost is still lost
    if (status.is !== 'connecting') this.#isLost = status.is === 'lost';
    if (this.#isLost && !wasLost) say(byId('announce'), 'The connection to Headgate is lost. What is shown is old.');
    if (wasLost && status.is === 'live') say(byId('announce'), 'The connection to Headgate is back.');
    this.tick();
  }

  /** Writes it anew: the age rises by itself. */
  tick(): void {
    const [text, tone] = this.#text();
    say(byId('link'), text);
    mark(byId('link-dot'), 'data-tone', tone);
    mark(document.body, 'data-lost', this.#isLost ? 'yes' : undefined);
    show(byId('lost'), this.#isLost);
    if (!this.#isLost) return;
    // the verdict was about a moment that is over
    say(byId('state-word'), 'Not known');
    mark(byId('state-word'), 'data-tone', 'bad');
    const age = this.#lastAtMs === undefined ? undefined : wholeSeconds(Date.now() - this.#lastAtMs);
    say(
      byId('lost-what'),
      age === undefined ? 'Headgate cannot be asked.' : `The connection is lost. What is shown is ${age} old.`,
    );
    if (this.#now.is !== 'lost') return say(byId('lost-why'), 'Trying again.');
    document.title = 'Connection lost – Headgate';
    say(byId('lost-why'), `Cause: ${this.#now.why}. Next attempt in ${wholeSeconds(this.#now.nextAtMs - Date.now())}.`);
  }

  #text(): readonly [string, Tone] {
    switch (this.#now.is) {
      case 'live':
        return ['live', 'good'];
      case 'connecting':
        return [this.#isLost ? 'connection lost' : 'connecting', this.#isLost ? 'bad' : 'calm'];
      case 'lost':
        return ['connection lost', 'bad'];
      case 'asking':
        return ['wants a token', 'warn'];
    }
  }
}
