import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ROOT } from '../support/files.ts';
import { LineProcess } from '../support/line-process.ts';
import { installPacked, pack } from '../support/packed.ts';
import { realBouncerAvailable, StreamingBouncer } from '../support/real-bouncer.ts';
import { type Sdk, startSdk } from '../support/sdk.ts';

const MS_MAX = 60_000;
vi.setConfig({ testTimeout: MS_MAX, hookTimeout: MS_MAX });
const START_MS_MAX = 30_000;
const BANS = ['ban 192.0.2.7', 'captcha 192.0.2.201', 'ban 198.51.100.0/24', 'ban 2001:db8::7'];

const { dependencies } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  dependencies: Record<string, string>;
};

/** `npx headgate demo`, started in the folder of an installation. */
class Demo {
  readonly #process: LineProcess;

  constructor(folder: string, ...args: readonly string[]) {
    // a group of its own, which gets Ctrl-C as it does in a terminal: npx alone does not pass a signal on
    const script = 'cd "$0" && exec setsid npx --no-install headgate demo "$@"';
    this.#process = new LineProcess({ command: 'sh', args: ['-c', script, folder, ...args] });
  }

  /** The first match of `pattern` in a line of the log or of what it says to try. */
  async says(pattern: RegExp): Promise<string> {
    const textOf = (line: object): string => ('text' in line ? String(line.text) : JSON.stringify(line));
    const line = await this.#process.waitFor(String(pattern), (said) => pattern.test(textOf(said)), {
      msMax: START_MS_MAX,
    });
    return pattern.exec(textOf(line))?.[1] ?? '';
  }

  /** The commands that it says to try, each with what it is said to be. */
  get commands(): readonly (readonly [string, string])[] {
    return this.#process.lines.flatMap((line) => {
      const [, name, command] = /^ +(.*?): +(curl .*)$/.exec('text' in line ? String(line['text']) : '') ?? [];
      return name === undefined || command === undefined ? [] : [[name, command] as const];
    });
  }

  /** Ctrl-C. */
  async stop(): Promise<void> {
    this.signal('SIGINT', 'all');
    await this.ended();
  }

  /** To npx alone, or to all that it started as well, as a terminal does. */
  signal(signal: NodeJS.Signals, to: 'npx' | 'all'): void {
    const { pid } = this.#process;
    if (pid !== undefined) process.kill(to === 'all' ? -pid : pid, signal);
  }

  /** Whatever is left of it. */
  kill(): void {
    try {
      this.signal('SIGKILL', 'all');
    } catch {
      // nothing is
    }
  }

  /** When nobody has its standard output any more. */
  async ended(): Promise<void> {
    await this.#process.stop('stdin');
  }
}

const packed = pack();
const folder = installPacked(packed);
afterAll(() => rmSync(packed.folder, { recursive: true, force: true }));

describe.runIf(folder !== undefined)('npx headgate demo, in a folder where only the package was installed', () => {
  let demo: Demo;
  let url = '';
  let page = '';

  beforeAll(async () => {
    demo = new Demo(folder ?? '', '--port', '0', '--admin-port', '0');
    url = await demo.says(/serves three flags and four decisions on (http:\S+)\. /);
    page = await demo.says(/^Watch it: +(http:\S+)$/);
  });
  afterAll(async () => {
    await demo?.stop();
  });

  it('tells a real SDK its flags, and what is edited in the file that it names', async () => {
    let sdk: Sdk | undefined;
    try {
      sdk = startSdk({ sdk: 'node', mode: 'fdv2', baseUrl: url, sdkKey: 'sdk-demo' });
      expect(Object.keys(await sdk.initialized).toSorted()).toEqual([
        'dark-mode',
        'maintenance-banner',
        'new-checkout',
      ]);
      const file = await demo.says(/^ +flags: +(\/\S+)$/);
      const data = JSON.parse(readFileSync(file, 'utf8')) as { flags: Record<string, { on: boolean }> };
      const banner = data.flags['maintenance-banner'];
      writeFileSync(
        file,
        JSON.stringify({
          ...data,
          flags: {
            ...data.flags,
            'maintenance-banner': { ...banner, on: true, fallthrough: { variation: 2 }, rules: [] },
          },
        }),
      );
      expect(await sdk.waitForChange('maintenance-banner', { value: 'now' })).toBe('now');
    } finally {
      await sdk?.stop();
    }
  });

  it.runIf(realBouncerAvailable('node'))(
    'tells a real bouncer its decisions, and what is edited in the file that it names',
    async () => {
      const bouncer = new StreamingBouncer({ name: 'node', url, key: 'bouncer-demo' });
      try {
        await bouncer.pulled();
        expect(await bouncer.set()).toEqual(new Set(BANS));
        const file = await demo.says(/^ +decisions: +(\/\S+)$/);
        writeFileSync(file, 'value\n192.0.2.7\n203.0.113.9\n');
        const expected = new Set(['ban 192.0.2.7', 'ban 203.0.113.9']);
        await expect
          .poll(
            async () => {
              await bouncer.pulled();
              return bouncer.set();
            },
            { timeout: START_MS_MAX },
          )
          .toEqual(expected);
        expect(bouncer.failures).toEqual([]);
      } finally {
        await bouncer.stop();
      }
    },
  );

  it('has its page where it says', async () => {
    const answer = await fetch(page);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/html/)]);
    expect(await answer.text()).toMatch(/<title>[^<]*Headgate/);
  });

  it('answers every command that it prints, as it is printed', async () => {
    await demo.says(/Ctrl-C stops/);
    const said = Object.fromEntries(
      demo.commands.map(([name, command]) => {
        // a stream ends when curl has had enough
        const seconds = command.startsWith('curl -N ') ? 3 : 20;
        const { stdout } = spawnSync('sh', ['-c', `${command} -sS -m ${seconds}`], { encoding: 'utf8' });
        return [name, stdout];
      }),
    );
    expect(said).toEqual({
      "a server SDK's stream (FDv1)": expect.stringMatching(/^event: ?put\ndata: ?\{.*"dark-mode"/),
      'the same in FDv2': expect.stringMatching(/^event: ?server-intent\n[\s\S]*"dark-mode"[\s\S]*payload-transferred/),
      'one flag, as PHP asks': expect.stringMatching(/^\{.*"key":"dark-mode"/),
      'flags for one browser': expect.stringMatching(/"dark-mode":\{.*"value":true/),
      'all that a bouncer is told': expect.stringMatching(/"new": ?\[.*"value":"192\.0\.2\.7"/),
      'and then what changed': expect.stringMatching(/^\{.*"new": ?\[/),
      'decisions on one address': expect.stringMatching(/^\[\{.*"value":"192\.0\.2\.7"/),
      'what it serves': expect.stringMatching(/"status": ?"healthy"/),
    });
  });

  it('leaves nothing in the folder it was started in, and its parts list is whole', () => {
    const names = execFileSync('ls', ['-A'], { cwd: folder, encoding: 'utf8' }).trim().split('\n');
    expect(names.filter((name) => !name.endsWith('.tgz')).toSorted()).toEqual([
      'node_modules',
      'package-lock.json',
      'package.json',
    ]);
    // as the release makes it: npm leaves out of a tree with development dependencies what those use as well
    const sbom = JSON.parse(
      execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx'], { cwd: folder, encoding: 'utf8', maxBuffer: 1e8 }),
    ) as { bomFormat: string; components: { name: string; version: string }[] };
    expect(sbom.bomFormat).toBe('CycloneDX');
    const parts = new Map(sbom.components.map(({ name, version }) => [name, version]));
    expect(Object.fromEntries(Object.keys(dependencies).map((name) => [name, parts.get(name)]))).toEqual(dependencies);
  });

  it('says so when the port of its page is taken, and serves all the same', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const second = new Demo(folder ?? '', '--port', '0', '--admin-port', String(port));
    try {
      const at = await second.says(/serves three flags and four decisions on (http:\S+)\. /);
      await second.says(/The dashboard is not open, .* --admin-port 0 takes any free port/);
      await second.says(new RegExp(`(${port}).*HG_LISTEN|HG_LISTEN.*(${port})`));
      expect((await fetch(`${at}/health/live`)).status).toBe(200);
    } finally {
      await second.stop();
      taken.close();
    }
  });

  it('ends when it is told to, and takes its files with it', async () => {
    const other = new Demo(folder ?? '', '--port', '0', '--admin-port', '0');
    const file = await other.says(/^ +flags: +(\/\S+)$/);
    expect(readFileSync(file, 'utf8')).toContain('maintenance-banner');
    await other.stop();
    // fails when the demo takes its folder away with the asynchronous rm: the process does not wait for that
    expect(() => readFileSync(file)).toThrow('ENOENT');
  });

  // the first fails when the demo does not look for who started it; the second when it takes SIGHUP for a reload
  it.each([
    ['npx is told to end', 'SIGTERM', 'npx'],
    ['its terminal is closed', 'SIGHUP', 'all'],
  ] as const)('does not stay behind when %s', async (_, signal, to) => {
    const other = new Demo(folder ?? '', '--port', '0', '--admin-port', '0');
    const file = await other.says(/^ +flags: +(\/\S+)$/);
    try {
      other.signal(signal, to);
      await other.says(/^.*"msg":"stopped"/);
      await other.ended();
      expect(() => readFileSync(file)).toThrow('ENOENT');
    } finally {
      other.kill();
    }
  });
});
