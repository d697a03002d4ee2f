import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const CHROMIUM = '/usr/bin/chromium';

/** Whether there is a browser to look with. In CI there must be one: a missing one is an error, never a skipped test. */
export function browserAvailable() {
  if (existsSync(CHROMIUM)) return true;
  const problem = `Cannot look at the page: install Chromium first, got no ${CHROMIUM}`;
  if (process.env.CI === 'true') throw new Error(problem);
  process.stderr.write(`${problem}; its tests are skipped\n`);
  return false;
}

/** A browser that asks nobody but the pages that it is told to open. */
export async function openBrowser() {
  return await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-proxy-server'],
  });
}
