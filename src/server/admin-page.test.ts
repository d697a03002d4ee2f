import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type Admin, openAdmin } from './admin.ts';
import { pageRoutes } from './admin-page.ts';

const FILES: Readonly<Record<string, string>> = {
  'index.html': '<!doctype html><title>page</title>',
  'assets/index-Bq3xZ0_1.js': 'export {};',
  'assets/index-C0ffee12.css': 'body{}',
  'assets/font-0123abcd.woff2': 'wOF2',
  'icon.svg': '<svg/>',
  'build.json': '{}',
  'notes.txt': 'of no known type',
  'assets/odd name-0123abcd.js': 'not by this name',
};

function folderOf(files: Readonly<Record<string, string>>): URL {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-page-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  // beside the page, and none of its files
  writeFileSync(join(folder, '..', 'headgate-secret.json'), '"secret"');
  return pathToFileURL(`${folder}/`);
}

let admin: Admin | undefined;
afterEach(() => admin?.close());

async function serve(folder: URL): Promise<boolean> {
  const { routes, isBuilt } = await pageRoutes(folder);
  admin = await openAdmin({ host: '127.0.0.1', port: 0, onFailure: () => undefined }, routes);
  return isBuilt;
}

interface Answer {
  readonly status: number | undefined;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

function ask(path: string, options: http.RequestOptions = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port: admin?.port, path, agent: false, ...options });
    request.once('error', reject);
    request.once('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.once('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.end();
  });
}

/** As no client of Node would write it. */
function askRaw(target: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(admin?.port ?? 0, '127.0.0.1', () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    });
    let text = '';
    socket.setEncoding('utf8').on('data', (part: string) => (text += part));
    socket.once('error', reject);
    socket.once('close', () => resolve(text));
  });
}

describe('the files of the page', () => {
  it.each([
    ['/', 'text/html; charset=utf-8', 'no-cache', FILES['index.html']],
    [
      '/assets/index-Bq3xZ0_1.js',
      'text/javascript; charset=utf-8',
      'public, max-age=31536000, immutable',
      'export {};',
    ],
    ['/assets/index-C0ffee12.css', 'text/css; charset=utf-8', 'public, max-age=31536000, immutable', 'body{}'],
    ['/assets/font-0123abcd.woff2', 'font/woff2', 'public, max-age=31536000, immutable', 'wOF2'],
    ['/icon.svg', 'image/svg+xml', 'no-cache', '<svg/>'],
    ['/build.json', 'application/json', 'no-cache', '{}'],
  ])('are served with their type, and a policy that lets nothing else in: %s', async (path, type, caching, text) => {
    expect(await serve(folderOf(FILES))).toBe(true);
    const answer = await ask(path);
    expect(answer).toMatchObject({ status: 200, text });
    expect(answer.headers).toMatchObject({
      'content-type': type,
      'cache-control': caching,
      'content-length': String(Buffer.byteLength(text ?? '')),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    });
  });

  it('are not sent again to whoever has them, and not sent at all to HEAD', async () => {
    await serve(folderOf(FILES));
    const { etag = '' } = (await ask('/')).headers;
    expect(etag).toMatch(/^"[\w-]{22}"$/);
    for (const known of [etag, `"other", W/${etag}`, '*']) {
      const again = await ask('/', { headers: { 'if-none-match': known } });
      expect(again).toMatchObject({ status: 304, text: '' });
      expect(again.headers).toMatchObject({ etag, 'cache-control': 'no-cache' });
    }
    expect(await ask('/', { headers: { 'if-none-match': '"other"' } })).toMatchObject({ status: 200 });
    const head = await ask('/', { method: 'HEAD' });
    expect(head).toMatchObject({ status: 200, text: '' });
    expect(head.headers['content-length']).toBe(String(Buffer.byteLength(FILES['index.html'] ?? '')));
  });

  it('are no others: what is not in the map is asked of no file system', async () => {
    await serve(folderOf(FILES));
    for (const path of ['/index.html2', '/notes.txt', '/assets/', '/assets/odd%20name-0123abcd.js']) {
      expect((await ask(path)).status).toBe(404);
    }
    const targets = [
      '/../headgate-secret.json',
      '/assets/../../headgate-secret.json',
      '/assets/%2e%2e/%2e%2e/headgate-secret.json',
      '/assets/..%2f..%2fheadgate-secret.json',
      '/assets/..%5c..%5cheadgate-secret.json',
      '//headgate-secret.json',
      '/assets/%00',
    ];
    for (const target of targets) expect(await askRaw(target)).not.toMatch(/^HTTP\/1\.1 200|secret"/);
  });

  it('that were changed meanwhile stay as they were', async () => {
    const folder = folderOf(FILES);
    await serve(folder);
    writeFileSync(new URL('index.html', folder), 'changed');
    expect((await ask('/')).text).toBe(FILES['index.html']);
  });

  it('that were not built are answered with how to build them', async () => {
    expect(await serve(pathToFileURL(join(tmpdir(), 'headgate-no-such-folder/')))).toBe(false);
    for (const path of ['/', '/assets/index-Bq3xZ0_1.js']) {
      expect(await ask(path)).toMatchObject({
        status: 404,
        text: 'the page is not built: run npm run build in the source tree\n',
      });
    }
  });

  // Fails when the bound on the number of files is removed.
  it('are few: a folder of anything else is refused', async () => {
    const many = Object.fromEntries(Array.from({ length: 201 }, (_, at) => [`assets/${at}.js`, '']));
    await expect(pageRoutes(folderOf({ ...many, 'index.html': '' }))).rejects.toMatchObject({ code: 'HG_OPTION' });
  });
});
