import { refusedLately } from './budget.ts';
import type { State } from './contract.ts';
import { byId, say } from './dom.ts';
import { History } from './history.ts';
import { Kept } from './kept.ts';
import { Link } from './link.ts';
import { Panels } from './panels.ts';
import { Plots } from './plots.ts';
import { Status } from './status.ts';
import { startTheme } from './theme.ts';

const TICK_MS = 1000;

const token = new Kept('headgate-token', () => sessionStorage);
const status = new Status();
const history = new History();
const panels = new Panels();
const plots = new Plots();
let last: State | undefined;

/** Draws what came. A page that nobody sees is drawn when somebody looks; its title is seen all the same. */
function draw(): void {
  if (last === undefined) return;
  panels.writeTitle(last);
  if (document.hidden) return;
  const recent = history.recent();
  panels.write(last, recent, refusedLately(recent, plots.refusedInMinute));
  plots.update();
}

const link = new Link({
  token: () => token.value,
  onStatus(now) {
    status.set(now);
    if (now.is === 'asking') askForToken(now.wrong);
  },
  onTimeline: (timeline) => plots.reset(timeline),
  onBucket: (bucket) => plots.add(bucket),
  onState(state) {
    // another version has another page, which may speak of other things
    if (last !== undefined && last.version !== state.version) location.reload();
    last = state;
    history.take(state);
    status.heard();
    draw();
  },
});

function askForToken(isWrong: boolean): void {
  const dialog = byId<HTMLDialogElement>('token-dialog');
  if (isWrong)
    say(
      byId('token-why'),
      'That is not the token of this listener. It is the one of admin.token or HEADGATE_ADMIN_TOKEN.',
    );
  if (!dialog.open) dialog.showModal();
}

byId<HTMLFormElement>('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = byId<HTMLInputElement>('token');
  token.value = input.value.trim();
  input.value = '';
  byId<HTMLDialogElement>('token-dialog').close();
  link.open();
});
// without a token there is nothing to show
byId('token-dialog').addEventListener('cancel', (event) => event.preventDefault());
byId('retry').addEventListener('click', () => link.open());
document.addEventListener('visibilitychange', draw);
startTheme(byId('theme'), () => plots.recolour());
setInterval(() => status.tick(), TICK_MS);
link.open();
