import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Exchange } from '../delivery/index.ts';
import { HeadgateError } from '../kernel/index.ts';
import type { Route } from './route.ts';

/** One file of the page, in memory. */
interface PageFile {
  readonly path: string;
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** A page has a few files; more is not one. */
const FILES_MAX = 200;
const BYTES_MAX = 16 * 1024 * 1024;

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
  json: 'application/json',
};

/** Nothing from elsewhere, nothing inline, no frame around it. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const SAFE = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
} as const;

/** Names that a build makes: a hash of what is in the file stands in them, so that they never change. */
const HASHED = /^\/assets\/.+-[\w-]{8,}\.\w+$/;
/** A name of anything else could mean something to a router. */
const NAME = /^[\w.-]+(\/[\w.-]+)*$/;

/**
 * The files of the page on the admin listener, read once, as routes: one for each file, so that a path that is none of them
 * reaches no file system.
 *
 * @param folder - where the built page is; a file URL with a slash at its end.
 * @returns its routes; without the folder, those that say how to build it.
 * @example
 * import { pathToFileURL } from 'node:url';
 *
 * const { routes, isBuilt } = await pageRoutes(pathToFileURL('/nowhere/'));
 * console.log(isBuilt, routes.map(({ path }) => path).join(' ')); // false / /assets/*
 */
export async function pageRoutes(
  folder: URL,
): Promise<{ readonly routes: readonly Route[]; readonly isBuilt: boolean }> {
  const files = await readPage(folder);
  const isBuilt = files.some(({ path }) => path === '/');
  if (!isBuilt) return { routes: ['/', '/assets/*'].map(unbuilt), isBuilt };
  return { routes: files.map(routeOf), isBuilt };
}

async function readPage(folder: URL): Promise<PageFile[]> {
  const root = fileURLToPath(folder);
  const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
  const files: PageFile[] = [];
  let left = BYTES_MAX;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const full = resolve(entry.parentPath, entry.name);
    const name = relative(root, full).replaceAll('\\', '/');
    const type = TYPES[/\.(\w+)$/.exec(name)?.[1] ?? ''];
    if (type === undefined || !NAME.test(name)) continue;
    const bytes = await readFile(full);
    left -= bytes.byteLength;
    if (left < 0 || files.length === FILES_MAX) throw tooLarge(root);
    files.push(fileOf(name === 'index.html' ? '/' : `/${name}`, type, bytes));
  }
  return files;
}

function tooLarge(root: string): HeadgateError {
  const message = `Cannot serve the page in ${root}: expected at most ${FILES_MAX} files of ${BYTES_MAX} bytes, got more`;
  return new HeadgateError('HG_OPTION', message);
}

function fileOf(path: string, type: string, bytes: Buffer): PageFile {
  const headers = {
    ...SAFE,
    'content-type': type,
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
    'cache-control': HASHED.test(path) ? 'public, max-age=31536000, immutable' : 'no-cache',
  };
  return { path, bytes, headers };
}

function routeOf({ path, bytes, headers }: PageFile): Route {
  return {
    methods: ['GET', 'HEAD'],
    path,
    handle(exchange) {
      if (isKnown(exchange, headers['etag'] ?? '')) exchange.reply(304, headers);
      else exchange.reply(200, { ...headers, 'content-length': String(bytes.byteLength) }, bytes);
    },
  };
}

/** Whether the client says that it has this very file (RFC 9110, section 13.1.2). */
function isKnown(exchange: Exchange, etag: string): boolean {
  const shown = exchange.header('if-none-match');
  if (shown === undefined) return false;
  return shown.split(',').some((one) => ['*', etag].includes(one.trim().replace(/^W\//, '')));
}

function unbuilt(path: string): Route {
  const text = 'the page is not built: run npm run build in the source tree\n';
  return {
    methods: ['GET', 'HEAD'],
    path,
    handle: (exchange) => exchange.reply(404, { ...SAFE, 'content-type': 'text/plain; charset=utf-8' }, text),
  };
}
