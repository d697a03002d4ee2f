import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type Config, loadConfig } from '../src/config/index.ts';
import { programsAvailable, run } from './support/deploy-tools.ts';
import { ROOT } from './support/files.ts';

const CHART = 'deploy/helm/headgate';
/** The version of Kubernetes that helm takes the cluster for, and the one whose schemas are held against what it makes. */
const HELM_KUBERNETES = '1.33';
const MS_MAX = 60_000;
vi.setConfig({ testTimeout: MS_MAX, hookTimeout: MS_MAX });

interface Part {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly stringData?: Readonly<Record<string, string>>;
}
interface Container {
  readonly args: readonly string[];
  readonly env: readonly { name: string; value?: string; valueFrom?: object }[];
  readonly envFrom?: readonly object[];
  readonly ports: readonly { name: string; containerPort: number }[];
  readonly securityContext: object;
  readonly resources: { limits: { memory: string } };
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}
interface Probe {
  readonly httpGet?: { path: string; port: string; scheme: string };
  readonly exec?: { command: readonly string[] };
}
interface Pod {
  readonly spec: {
    readonly terminationGracePeriodSeconds: number;
    readonly securityContext: object;
    readonly automountServiceAccountToken: boolean;
    readonly containers: readonly Container[];
    readonly volumes: readonly object[];
  };
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-chart-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const FLAGS = { flags: { environments: { production: { sdkKey: 'sdk-1' } } } };

/** Everything that can be turned on. */
const ALL = {
  admin: { exposed: true, tokenSecret: { name: 'admin-token' } },
  autoscaling: { enabled: true },
  networkPolicy: {
    enabled: true,
    clients: [{ namespaceSelector: {} }],
    operators: [{ podSelector: { matchLabels: { app: 'prometheus' } } }],
    egress: [{ ports: [{ port: 443 }] }],
  },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  env: { HEADGATE_LIMITS: 'auto' },
  envFrom: [{ secretRef: { name: 'flag-keys' } }],
  volumes: [{ name: 'certificates', secret: { secretName: 'tls' } }],
  volumeMounts: [{ name: 'certificates', mountPath: '/etc/certificates' }],
  image: { digest: `sha256:${'a'.repeat(64)}` },
  imagePullSecrets: [{ name: 'pull' }],
  nodeSelector: { 'kubernetes.io/arch': 'arm64' },
  tolerations: [{ key: 'edge', operator: 'Exists' }],
  affinity: { podAntiAffinity: {} },
  priorityClassName: 'high',
  podLabels: { team: 'edge' },
  podAnnotations: { note: 'marked' },
  service: { annotations: { note: 'marked' }, type: 'LoadBalancer', port: 443 },
};

/** What helm makes of the chart with these values, as text, or what it says against them. */
function template(values: object = {}): { status: number | null; text: string } {
  const path = join(folder, 'values.yaml');
  writeFileSync(path, stringify(values));
  const { status, stdout, text } = run('helm', [
    'template',
    'edge',
    CHART,
    '--kube-version',
    HELM_KUBERNETES,
    '--values',
    path,
  ]);
  return { status, text: status === 0 ? stdout : text };
}

/** What Headgate reads of a text; it must be free of errors and warnings. */
async function configOf(text: string): Promise<Config> {
  const { config, problems } = await loadConfig({
    file: 'c.yaml',
    readFile: async () => text,
    fromEnv: false,
    env: {},
  });
  expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
  if (config === undefined) throw new Error('Cannot read a configuration: it has errors');
  return config;
}

function partsOf(values: object = {}): readonly Part[] {
  const { status, text } = template(values);
  if (status !== 0) throw new Error(`Cannot render the chart: ${text}`);
  return parseAllDocuments(text).map((document) => document.toJS() as Part);
}

function partOf(kind: string, values: object = {}): Part {
  const part = partsOf(values).find((one) => one.kind === kind);
  if (part === undefined) throw new Error(`Cannot find a ${kind} in what the chart makes`);
  return part;
}

function podOf(values: object = {}): Pod {
  const workload = partsOf(values).find(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
  return workload?.spec['template'] as Pod;
}

function containerOf(values: object = {}): Container {
  const [container] = podOf(values).spec.containers;
  if (container === undefined) throw new Error('Cannot find a container in what the chart makes');
  return container;
}

describe.runIf(programsAvailable('helm', 'kubernetes-validate'))('the chart', () => {
  it('is as helm wants it', () => {
    expect(run('helm', ['lint', '--strict', '--kube-version', HELM_KUBERNETES, CHART])).toMatchObject({ status: 0 });
  });

  it.each([
    ['as it is', {}, 6],
    ['without volumes of its own', { persistence: { enabled: false } }, 6],
    ['with everything on', ALL, 10],
  ])('makes what Kubernetes takes, %s', (_, values, count) => {
    const { text } = template(values);
    const path = join(folder, 'rendered.yaml');
    writeFileSync(path, text);
    expect(parseAllDocuments(text)).toHaveLength(count);
    const said = run('kubernetes-validate', ['--strict', '--no-warn', path]);
    expect([said.status, said.text.match(/ passed for /g)]).toEqual([
      0,
      // it has no schema of the Prometheus operator's kind
      Array.from({ length: count - (values === ALL ? 1 : 0) }, () => ' passed for '),
    ]);
  });

  it('would be told of a member that Kubernetes does not know', () => {
    const path = join(folder, 'wrong.yaml');
    writeFileSync(path, template().text.replace('readOnlyRootFilesystem', 'readonlyRootFilesystem'));
    expect(run('kubernetes-validate', ['--strict', path]).status).not.toBe(0);
  });

  it('holds its pods to the restricted standard, with a root that nothing writes to', () => {
    const { spec } = podOf();
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    });
    expect(containerOf().securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(containerOf().resources.limits.memory).toBe('512Mi');
  });

  it.each([
    [{}, 5 + 30],
    [{ drainDelay: '15s', grace: '1m30s' }, 15 + 90],
    [{ drainDelay: '500ms', grace: '1h' }, 1 + 3600],
    // fails when only whole numbers are read: it would be ended after a minute
    [{ grace: '10.1m' }, 5 + 606],
  ])('gives a stop the time that the configuration does: %j', async (server, seconds) => {
    expect(podOf({ config: { server } }).spec.terminationGracePeriodSeconds).toBe(seconds + 10);
    const { drainDelayMs, graceMs } = (await configOf(stringify({ server, ...FLAGS }))).server;
    expect(Math.ceil((drainDelayMs + graceMs) / 1000)).toBe(seconds);
  });

  it.each([
    [FLAGS, 8030, 'HTTP'],
    [{ ...FLAGS, server: { port: 9000, tls: { cert: '/c', key: '/k' } } }, 9000, 'HTTPS'],
    [{ decisions: { sources: [{ type: 'lapi', url: 'http://lapi:8080', key: 'k' }] } }, 8080, 'HTTP'],
  ])('asks for health where clients are served: %j', async (config, port, scheme) => {
    const { ports, livenessProbe, readinessProbe } = containerOf({ config });
    expect(ports.find(({ name }) => name === 'clients')?.containerPort).toBe(port);
    expect(livenessProbe.httpGet).toEqual({ path: '/health/live', port: 'clients', scheme });
    expect(readinessProbe.httpGet).toEqual({ path: '/health/ready', port: 'clients', scheme });
    expect((await configOf(stringify(config))).server.port).toBe(port);
  });

  // each fails when the chart looks at the configuration alone: a probe would ask where, or as, nobody serves
  it.each([
    [{ PORT: 9001 }, { port: 9000 }, { port: 9001, scheme: 'HTTP', seconds: 35 }],
    [{ TLS_ENABLED: true, TLS_CERT: '/c', TLS_KEY: '/k' }, {}, { port: 8030, scheme: 'HTTPS', seconds: 35 }],
    [{ TLS_ENABLED: false }, { tls: { cert: '/c', key: '/k' } }, { port: 8030, scheme: 'HTTP', seconds: 35 }],
    [{ GRACEFUL_SHUTDOWN_TIMEOUT: '2m' }, { grace: '1s' }, { port: 8030, scheme: 'HTTP', seconds: 125 }],
  ])('lets variables go before the configuration, as Headgate does: %j', async (env, server, expected) => {
    const config = { ...FLAGS, server };
    const { spec } = podOf({ config, env });
    const { ports, livenessProbe } = containerOf({ config, env });
    expect({
      port: ports.find(({ name }) => name === 'clients')?.containerPort,
      scheme: livenessProbe.httpGet?.scheme,
      seconds: spec.terminationGracePeriodSeconds - 10,
    }).toEqual(expected);
    const words = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)]));
    const read = (await loadConfig({ file: 'c', readFile: async () => stringify(config), fromEnv: true, env: words }))
      .config?.server;
    expect({
      port: read?.port,
      scheme: read?.tls === undefined ? 'HTTP' : 'HTTPS',
      seconds: ((read?.drainDelayMs ?? 0) + (read?.graceMs ?? 0)) / 1000,
    }).toEqual(expected);
  });

  it('asks from within where clients must show a certificate, which no probe can', async () => {
    const tls = { cert: '/c', key: '/k', clientCa: '/ca', clientVerification: 'require' };
    const config = { ...FLAGS, server: { tls } };
    const { livenessProbe, readinessProbe } = containerOf({ config, admin: { port: 8099 } });
    const command = (path: string): object => ({
      command: ['node', '/usr/lib/headgate/dist/cli/health.js', `http://127.0.0.1:8099${path}`],
    });
    expect([livenessProbe.exec, readinessProbe.exec]).toEqual([command('/health/live'), command('/health/ready')]);
    expect([livenessProbe.httpGet, readinessProbe.httpGet]).toEqual([undefined, undefined]);
    expect((await configOf(stringify(config))).server.tls).toMatchObject({ clientVerification: 'require' });
    // the check sends a token that stands in a variable, and knows of no other
    const own = { config: { ...config, admin: { token: 'a-token-that-the-check-cannot-read' } } };
    expect(template(own)).toMatchObject({ status: 1, text: expect.stringContaining('admin.tokenSecret.name') });
    const { env } = containerOf({ ...own, admin: { tokenSecret: { name: 'admin-token' } } });
    expect(env).toContainEqual({
      name: 'HEADGATE_ADMIN_TOKEN',
      valueFrom: { secretKeyRef: { name: 'admin-token', key: 'token' } },
    });
  });

  it('has no variable of the values but in a Secret, which replaces the pods when it changes', () => {
    const key = 'sdk-4d5e';
    const values = { env: { LD_ENV_production: key, COUNT: 12_345_678 }, envFrom: [{ secretRef: { name: 'more' } }] };
    const holders = partsOf(values).filter((part) => JSON.stringify(part).includes(key));
    expect(holders.map(({ kind, stringData }) => [kind, stringData])).toEqual([
      ['Secret', { LD_ENV_production: key, COUNT: '12345678' }],
    ]);
    // the last of them goes before the others
    const named = [{ secretRef: { name: 'more' } }, { secretRef: { name: holders[0]?.metadata.name } }];
    expect(containerOf(values).envFrom).toEqual(named);
    expect(partOf('StatefulSet', values).spec['template']).not.toEqual(
      partOf('StatefulSet', { ...values, env: { ...values.env, COUNT: 1 } }).spec['template'],
    );
  });

  it('hands on the configuration as it is, in a Secret', async () => {
    const asked = {
      flags: { environments: { production: { sdkKey: 'sdk-1', envId: 'e:#1' } } },
      store: '/var/lib/headgate/data',
    };
    const text = partOf('Secret', { config: asked }).stringData?.['headgate.yaml'] ?? '';
    expect(parse(text)).toEqual(asked);
    expect((await configOf(text)).environments).toMatchObject([{ name: 'production', sdkKey: 'sdk-1', envId: 'e:#1' }]);
    expect(containerOf().args).toEqual(['serve', '--config', '/etc/headgate/headgate.yaml', '--from-env']);
  });

  it('takes a Secret of one’s own instead, and makes none', () => {
    const values = { existingSecret: 'mine' };
    expect(partsOf(values).map(({ kind }) => kind)).not.toContain('Secret');
    expect(podOf(values).spec.volumes).toContainEqual({
      name: 'config',
      secret: { secretName: 'mine', defaultMode: 0o440 },
    });
  });

  it('sets variables that Headgate reads, and keeps operators on loopback unless there is a token', async () => {
    const own = ({ env }: Container): Record<string, string | undefined> =>
      Object.fromEntries(env.map(({ name, value }) => [name, value ?? 'from a secret']));
    const closed = own(containerOf());
    expect(closed).toEqual({ PORT: '8030', HEADGATE_ADMIN: '127.0.0.1:8031' });
    const exposed = own(containerOf(ALL));
    for (const [env, host] of [
      [closed, '127.0.0.1'],
      [exposed, '0.0.0.0'],
    ] as const) {
      const { config, problems } = await loadConfig({ fromEnv: true, env: { FILE_DATA_SOURCE: 'a.tar', ...env } });
      expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
      expect(config?.admin).toMatchObject({ host, port: 8031 });
    }
    expect(template({ admin: { exposed: true } })).toMatchObject({
      status: 1,
      text: expect.stringContaining('admin.tokenSecret.name'),
    });
    expect(template({ serviceMonitor: { enabled: true } })).toMatchObject({
      status: 1,
      text: expect.stringContaining('admin.exposed'),
    });
  });

  it('keeps a volume for each replica, or shares nothing', () => {
    expect(partOf('StatefulSet').spec['volumeClaimTemplates']).toHaveLength(1);
    const without = partsOf({ persistence: { enabled: false } });
    expect(without.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['Deployment']));
    expect(partOf('HorizontalPodAutoscaler', ALL).spec['scaleTargetRef']).toMatchObject({ kind: 'StatefulSet' });
    expect(partOf('StatefulSet', ALL).spec).not.toHaveProperty('replicas');
  });

  it('lets Prometheus ask each replica with the token', () => {
    expect(partOf('ServiceMonitor', ALL)).toMatchObject({
      metadata: { labels: { release: 'prometheus' } },
      spec: {
        selector: { matchLabels: { 'headgate/pods': 'true' } },
        endpoints: [
          { port: 'admin', path: '/metrics', authorization: { credentials: { name: 'admin-token', key: 'token' } } },
        ],
      },
    });
    const pods = partsOf(ALL).filter(({ metadata }) => metadata.labels['headgate/pods'] === 'true');
    expect(pods.map(({ spec }) => spec['ports'])).toEqual([
      expect.arrayContaining([expect.objectContaining({ name: 'admin', port: 8031 })]),
    ]);
  });

  it('takes the values that the page on installing shows', async () => {
    const page = readFileSync(`${ROOT}docs/install.md`, 'utf8');
    const [, text = ''] = /^```yaml\n# values\.yaml\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const values = parse(text) as { config: object };
    expect(partsOf(values)).toHaveLength(6);
    expect((await configOf(stringify(values.config))).environments).toHaveLength(1);
  });

  it.each([
    [{ replica: 3 }, 'replica'],
    [{ replicas: 'three' }, 'replicas'],
    [{ resources: { limits: { memory: '512' } } }, 'memory'],
    [{ persistence: { accessModes: ['ReadWriteMany'] } }, 'accessModes'],
    [{ env: { HEADGATE_ADMIN_TOKEN: 'secret' } }, 'HEADGATE_ADMIN_TOKEN'],
    [{ podLabels: { 'app.kubernetes.io/name': 'other' } }, 'app.kubernetes.io/name'],
    [{ admin: { port: 8030 } }, 'admin.port is taken by clients'],
    [{ config: null }, "missing property 'config'"],
  ])('refuses values that mean nothing: %j', (values, said) => {
    expect(template(values)).toMatchObject({ status: 1, text: expect.stringContaining(said) });
  });
});
