import { get } from 'node:http';
import { pathToFileURL } from 'node:url';

/** Shorter than the time that container engines give a check. */
const ANSWER_MS_MAX = 3000;

/**
 * Where a check in the same container asks: the admin listener, which has neither TLS nor client certificates. It is where
 * the environment's variables put it; a file that moves it has to be told to the check.
 */
export function healthUrl(env: Readonly<Record<string, string | undefined>>): string {
  const [, host = '127.0.0.1', port = env['PROMETHEUS_PORT'] ?? '8031'] =
    /^(.*):(\d+)$/.exec(env['HEADGATE_ADMIN'] ?? '') ?? [];
  const isEvery = host === '0.0.0.0' || host === '[::]';
  return `http://${isEvery ? '127.0.0.1' : host}:${port}/health/live`;
}

/** The HTTP status that `url` answers with. Rejects when it does not answer in time. */
function statusOf(url: string, token: string | undefined): Promise<number> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const request = get(url, { headers, timeout: ANSWER_MS_MAX, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    request.on('timeout', () => request.destroy(new Error(`no answer in ${ANSWER_MS_MAX} ms`)));
    request.on('error', reject);
  });
}

/** `node dist/cli/health.js [URL]`: a container's health check, apart from the command so that it loads nothing of it. */
async function check(): Promise<void> {
  const named = process.argv[2];
  const url = named ?? healthUrl(process.env);
  const status = await statusOf(url, process.env['HEADGATE_ADMIN_TOKEN']).catch((error: unknown) => String(error));
  // whoever asks for a token is alive: it may stand in a file that is not read here
  if (status === 200 || (named === undefined && status === 401)) return;
  process.stderr.write(`Not healthy: expected ${url} to answer 200, got ${status}\n`);
  process.exitCode = 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await check();
