import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { anotherSelfSigned, authority, selfSigned } from '../../test/support/tls.ts';
import { FakeClock } from '../kernel/index.ts';
import { Server } from './server.ts';
import { type TlsFiles, watchTls } from './tls-files.ts';

const LOOK_MS = 10_000;

let folder: string;
let files: TlsFiles;

async function put(pair: { cert: Buffer; key: Buffer }): Promise<void> {
  // by rename, as whoever renews certificates does it
  for (const [path, bytes] of [
    [files.certPath, pair.cert],
    [files.keyPath, pair.key],
  ] as const) {
    await writeFile(`${path}.new`, bytes);
    await rename(`${path}.new`, path);
  }
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'headgate-tls-'));
  files = { certPath: join(folder, 'tls.crt'), keyPath: join(folder, 'tls.key'), minVersion: '1.2' };
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('certificate files', () => {
  it('are read again when they change, and a pair that cannot be used is told and not taken', async () => {
    const clock = new FakeClock();
    const [first, second] = [selfSigned(), anotherSelfSigned()];
    await put(first);
    const onChange = vi.fn<(tls: { cert: Buffer }) => void>();
    const onFailure = vi.fn<(error: unknown) => void>();
    const watched = await watchTls(files, clock, { onChange, onFailure });
    expect(watched.tls.cert).toEqual(first.cert);

    await put({ cert: second.cert, key: first.key });
    clock.advance(LOOK_MS);
    await vi.waitFor(() => expect(onFailure).toHaveBeenCalledOnce());
    expect(onFailure.mock.calls[0]?.[0]).toMatchObject({ code: 'HG_TLS' });
    expect(onChange).not.toHaveBeenCalled();

    await put(second);
    await vi.waitFor(() => expect(clock.armed).toBe(1));
    clock.advance(LOOK_MS);
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledOnce());
    expect(onChange.mock.calls[0]?.[0].cert).toEqual(second.cert);
    watched.stop();
    await vi.waitFor(() => expect(clock.armed).toBe(0));
  });

  it('that are missing stop the start with their names', async () => {
    const start = watchTls(files, new FakeClock(), { onChange: () => {}, onFailure: () => {} });
    await expect(start).rejects.toMatchObject({ code: 'HG_TLS', message: expect.stringContaining(files.certPath) });
  });
});

describe('client authorities', () => {
  // Fails when stampOf() does not look at their file, or readTls() leaves it as it was.
  it('are read again when they change, and what is no certificate is told and not taken', async () => {
    const clock = new FakeClock();
    const [first, second] = [authority('first'), authority('second')];
    const clientCaPath = join(folder, 'clients.pem');
    await put(selfSigned());
    await writeFile(clientCaPath, first.cert);
    const onChange = vi.fn<(tls: { clientCa?: Buffer }) => void>();
    const onFailure = vi.fn<(error: unknown) => void>();
    const clientFiles: TlsFiles = { ...files, clientCaPath, clientVerification: 'require' };
    const watched = await watchTls(clientFiles, clock, { onChange, onFailure });
    expect(watched.tls).toMatchObject({ clientCa: first.cert, clientVerification: 'require' });

    await writeFile(clientCaPath, 'nonsense');
    clock.advance(LOOK_MS);
    await vi.waitFor(() => expect(onFailure).toHaveBeenCalledOnce());
    expect(onFailure.mock.calls[0]?.[0]).toMatchObject({
      code: 'HG_TLS',
      message: expect.stringContaining(clientCaPath),
    });

    await writeFile(clientCaPath, Buffer.concat([second.cert, first.cert]));
    await vi.waitFor(() => expect(clock.armed).toBe(1));
    clock.advance(LOOK_MS);
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledOnce());
    expect(onChange.mock.calls[0]?.[0].clientCa).toEqual(Buffer.concat([second.cert, first.cert]));
    watched.stop();
  });

  it('that are missing stop the start with their name', async () => {
    await put(selfSigned());
    const clientFiles = { ...files, clientCaPath: join(folder, 'none.pem') };
    const start = watchTls(clientFiles, new FakeClock(), { onChange: () => {}, onFailure: () => {} });
    await expect(start).rejects.toMatchObject({ code: 'HG_TLS', message: expect.stringContaining('none.pem') });
  });
});

describe('a server', () => {
  // Fails when setTls() does not reach the listening server.
  it.each([true, false])(
    'shows a renewed certificate to new connections, without a restart (HTTP/2: %s)',
    async (http2) => {
      const [first, second] = [selfSigned(), anotherSelfSigned()];
      const options = {
        host: '127.0.0.1',
        port: 0,
        backlog: 16,
        http2,
        http2ConcurrentStreamsMax: 10,
        headersTimeoutMs: 1000,
        requestTimeoutMs: 1000,
        keepAliveTimeoutMs: 1000,
        headerBytesMax: 16_384,
        bodyBytesMax: 1024,
        onFailure: () => {},
      };
      const server = await Server.create({ ...options, tls: first }, []);
      const { port } = await server.listen();
      const before = await fingerprint(port);
      server.setTls(second);
      expect(await fingerprint(port)).not.toBe(before);
      server.stopAccepting();
      server.closeIdle();
    },
  );
});

function fingerprint(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      const { fingerprint256 } = socket.getPeerCertificate();
      socket.destroy();
      resolve(fingerprint256);
    });
    socket.once('error', reject);
  });
}
