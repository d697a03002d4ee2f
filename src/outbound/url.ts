import { HeadgateError } from '../kernel/index.ts';

/**
 * The URL of `path` (which may have a query) under a base that may have a path of its own, as all SDKs build theirs.
 *
 * @throws HeadgateError HG_OPTION when the base is not an absolute http or https URL.
 *
 * @example
 * console.log(urlUnder('https://relay.example/team-a/', '/sdk/poll?basis=x').href); // https://relay.example/team-a/sdk/poll?basis=x
 */
export function urlUnder(base: string, path: string): URL {
  const url = parseHttpUrl('send a request', 'the base', base);
  const [pathname = '', ...query] = path.split('?');
  url.pathname = url.pathname.replace(/\/+$/, '') + (pathname.startsWith('/') ? pathname : `/${pathname}`);
  url.search = query.length === 0 ? '' : `?${query.join('?')}`;
  url.hash = '';
  return url;
}

/** An http or https URL. Throws HG_OPTION, with `act` and `name` in the message. */
export function parseHttpUrl(act: string, name: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot ${act}: ${name} must be an http or https URL, got ${JSON.stringify(withoutUser(text))}`,
    );
  }
  return url as URL;
}

/** Whatever stands before an @ may be a password, in what is no URL as well. */
function withoutUser(text: string): string {
  return text.replace(/^(\w+:\/\/)?.*@/s, '$1...@');
}

/** A URL as it may stand in a message: without user, password and query, which may be secrets. */
export function shownUrl(url: URL): string {
  return url.origin + url.pathname;
}
