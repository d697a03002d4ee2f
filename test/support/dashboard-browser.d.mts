/*
 * The part of playwright-core that the tests of the page use. Its own types want those of a browser, which would then be
 * there in every test.
 */

export interface Request {
  url(): string;
}

export interface ConsoleMessage {
  type(): string;
  text(): string;
}

export interface Locator {
  click(): Promise<void>;
  hover(): Promise<void>;
  focus(): Promise<void>;
  fill(text: string): Promise<void>;
  press(key: string): Promise<void>;
  innerText(): Promise<string>;
  getAttribute(name: string): Promise<string | null>;
  isVisible(): Promise<boolean>;
  waitFor(options: { state: 'visible' | 'hidden'; timeout?: number }): Promise<void>;
  count(): Promise<number>;
}

export interface Page {
  on(event: 'request', listener: (request: Request) => void): void;
  on(event: 'console', listener: (message: ConsoleMessage) => void): void;
  on(event: 'pageerror', listener: (error: Error) => void): void;
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  /** A script that runs before those of the page. */
  addInitScript(script: string): Promise<void>;
  /** An expression, evaluated in the page. */
  evaluate<T>(expression: string): Promise<T>;
  locator(selector: string): Locator;
  readonly keyboard: { press(key: string): Promise<void> };
  screenshot(options: { path: string; fullPage?: boolean }): Promise<unknown>;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  title(): Promise<string>;
}

export interface Context {
  newPage(): Promise<Page>;
  close(): Promise<void>;
}

export interface Browser {
  newContext(options?: {
    colorScheme?: 'light' | 'dark';
    viewport?: { width: number; height: number };
    deviceScaleFactor?: number;
    isMobile?: boolean;
    hasTouch?: boolean;
    reducedMotion?: 'reduce';
  }): Promise<Context>;
  close(): Promise<void>;
}

export function browserAvailable(): boolean;
export function openBrowser(): Promise<Browser>;
