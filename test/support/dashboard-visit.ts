import type { State } from '../../dashboard/src/contract.ts';
import type { Browser, Context, Page } from './dashboard-browser.mjs';
import { untilInPage } from './dashboard-reading.ts';
import { DashboardStandIn } from './dashboard-stand-in.ts';

const DESKTOP = { width: 1280, height: 900 };

/** Somebody who looks at the page of a stand-in. */
export class DashboardVisit {
  readonly server: DashboardStandIn = new DashboardStandIn();
  /** Where requests of the page went, and what its console said. */
  readonly requested: string[] = [];
  readonly complaints: string[] = [];
  readonly #browser: Browser;
  #context: Context | undefined;
  #page: Page | undefined;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async begin(browser: Browser): Promise<DashboardVisit> {
    const visit = new DashboardVisit(browser);
    await visit.server.start();
    return visit;
  }

  get page(): Page {
    if (this.#page === undefined) throw new Error('Cannot look at the page: expected it to be opened first');
    return this.#page;
  }

  /** Opens the page; a script runs in it before its own do. */
  async open(options: Parameters<Browser['newContext']>[0] = {}, script: string = ''): Promise<Page> {
    this.#context = await this.#browser.newContext({ viewport: DESKTOP, ...options });
    const page = await this.#context.newPage();
    this.#page = page;
    await page.addInitScript(script);
    page.on('request', (request) => this.requested.push(request.url()));
    page.on('console', (message) => this.complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => this.complaints.push(error.message));
    await page.goto(this.server.url);
    return page;
  }

  isLive(): Promise<void> {
    return untilInPage(this.page, "document.querySelector('#link').textContent === 'live'");
  }

  text(selector: string): Promise<string> {
    return this.page.locator(selector).innerText();
  }

  /** Tells a state, and waits until it stands on the page. */
  async tell(state: State): Promise<void> {
    this.server.tell(state);
    await untilInPage(this.page, `document.querySelector('#main').dataset.at === '${state.atMs}'`);
  }

  async end(): Promise<void> {
    await this.#context?.close();
    await this.server.stop();
  }
}
