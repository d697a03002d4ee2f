import http from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { type Admin, type AdminOptions, openAdmin } from './admin.ts';
import { requested } from './requests.ts';
import type { Route } from './route.ts';

const routes = ['/metrics', '/status'].map(
  (path): Route => ({ methods: ['GET'], path, handle: (exchange) => exchange.reply(200, {}, path) }),
);

let admin: Admin | undefined;
afterEach(() => admin?.close());

async function start(options: Partial<AdminOptions>): Promise<void> {
  admin = await openAdmin({ host: '127.0.0.1', port: 0, onFailure: () => {}, ...options }, routes);
}

/** The status of an answer; undici would not let us name another host. */
function ask(path: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port: admin?.port, path, headers, agent: false });
    request.once('error', reject);
    request.once('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
  });
}

describe('the admin listener', () => {
  // Fails when the check in `guardOf` compares nothing, or a prefix.
  it('answers whoever shows the token, and nobody else', async () => {
    await start({ token: 's3cret' });
    expect(await ask('/metrics', { authorization: 'Bearer s3cret' })).toBe(200);
    expect(await ask('/metrics', { authorization: 'bearer s3cret' })).toBe(200);
    for (const authorization of ['Bearer s3cre', 'Bearer s3cret ', 's3cret', 'Bearer ', 'Basic s3cret']) {
      expect(await ask('/metrics', { authorization: `${authorization}x` })).toBe(401);
    }
    expect(await ask('/metrics')).toBe(401);
    expect(await ask('/status')).toBe(401);
  });

  // Fails when a listener without a token is taken for one on loopback, whatever its address.
  it('answers nobody elsewhere without a token, but for the open path', async () => {
    await start({ host: '0.0.0.0' });
    expect(await ask('/metrics')).toBe(403);
    admin?.close();
    await start({ host: '0.0.0.0', openPath: '/metrics' });
    expect(await ask('/metrics')).toBe(200);
    expect(await ask('/status')).toBe(403);
  });

  it('answers the open path without the token, and the rest with it', async () => {
    await start({ host: '0.0.0.0', token: 's3cret', openPath: '/metrics' });
    expect(await ask('/metrics')).toBe(200);
    expect(await ask('/status')).toBe(401);
    expect(await ask('/status', { authorization: 'Bearer s3cret' })).toBe(200);
  });

  // Fails when public paths are let through wherever nobody may ask, or `/api` with them.
  it('answers public paths without the token that is set, and nowhere else', async () => {
    const publicPaths = new Set(['/status']);
    await start({ host: '0.0.0.0', token: 's3cret', publicPaths });
    expect(await ask('/status')).toBe(200);
    expect(await ask('/metrics')).toBe(401);
    admin?.close();
    await start({ host: '0.0.0.0', publicPaths });
    expect(await ask('/status')).toBe(403);
    admin?.close();
    await start({ publicPaths });
    expect(await ask('/status')).toBe(200);
    expect(await ask('/status', { host: 'evil.example' })).toBe(403);
  });

  // Fails when the check of the Host header is removed.
  it('answers to the names of loopback only, on loopback without a token', async () => {
    await start({});
    for (const host of ['localhost', '127.0.0.1', '127.0.0.1:8031', '[::1]:8031', 'LOCALHOST:1']) {
      expect(await ask('/metrics', { host })).toBe(200);
    }
    for (const host of ['evil.example', 'localhost.evil.example:8031', '127.0.0.1.evil.example', '10.0.0.1']) {
      expect(await ask('/metrics', { host })).toBe(403);
    }
  });

  it('rejects when its port is taken', async () => {
    await start({});
    const port = admin?.port ?? 0;
    await expect(openAdmin({ host: '127.0.0.1', port, onFailure: () => {} }, routes)).rejects.toMatchObject({
      code: 'HG_LISTEN',
    });
  });

  it('does not count its own requests', async () => {
    await start({});
    const heard: string[] = [];
    const stop = requested.listen(({ route }) => heard.push(route));
    expect(await ask('/metrics')).toBe(200);
    stop();
    expect(heard).toEqual([]);
  });
});
