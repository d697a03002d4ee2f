import { maskKey } from '../config/index.ts';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import {
  type Figures,
  type Metrics,
  openMetrics,
  openOtlp,
  type Otlp,
  PROMETHEUS_TYPE,
  StateReader,
  TimelineRecorder,
} from '../observability/index.ts';
import { type Admin, openAdmin, pageRoutes, type Route } from '../server/index.ts';
import { Live } from './live.ts';
import { labelIn, shownText } from './live-names.ts';
import type { Service, Shared } from './service.ts';

/** What is looked at, and who looks. */
export interface TelemetryParts extends Shared {
  readonly services: readonly Service[];
  readonly activeRequests: () => number;
  /** What the admin listener answers besides metrics. */
  readonly routes: readonly Route[];
}

/** Metrics, traces, and the listener for operators. None of them is needed for serving: what fails is told, and that is all. */
export class Telemetry {
  readonly #parts: TelemetryParts;
  readonly #metrics: Metrics | undefined;
  readonly #startedAtMs = Date.now();
  #admin: Admin | undefined;
  #otlp: Otlp | undefined;
  #recorder: TimelineRecorder | undefined;
  #live: Live | undefined;
  #isStopping = false;

  /** Measures from here on: before the first request can come. */
  constructor(parts: TelemetryParts) {
    this.#parts = parts;
    const { config } = parts;
    if (config.exit.always || !(config.admin.enabled || config.otlp.metrics)) return;
    this.#metrics = this.#measure();
  }

  /** The port of the admin listener; undefined: it is not open. */
  get adminPort(): number | undefined {
    return this.#admin?.port;
  }

  /** Opens the listener, and begins to send. Never rejects. */
  async start(): Promise<void> {
    await Promise.all([this.#openAdmin(), this.#openOtlp()]);
  }

  /** The process is about to stop: who watches is told. */
  leave(): void {
    this.#isStopping = true;
  }

  async stop(): Promise<void> {
    this.#recorder?.close();
    this.#live?.close();
    this.#admin?.close();
    await this.#otlp?.close();
    this.#metrics?.close();
  }

  #measure(): Metrics {
    const { version, config, clock, services } = this.#parts;
    const { relay8Prefix } = config.admin;
    return openMetrics({
      clock,
      version,
      figures: () => figuresOf(this.#parts),
      flags: services.some((service) => service.tenantOf !== undefined),
      decisions: config.decisions.enabled,
      tenantOf: (name) => this.#tenantOf(name),
      ...(relay8Prefix === undefined ? {} : { relay8Prefix }),
    });
  }

  /** An environment that has gone meanwhile may have been called by its ID, which is a key. */
  #tenantOf(name: string): string {
    return labelIn(this.#parts.services, name) ?? maskKey(name);
  }

  /** Metrics are served without the page, if need be. */
  async #page(): ReturnType<typeof pageRoutes> {
    try {
      return await pageRoutes(PAGE);
    } catch (error) {
      this.#parts.log.error({ err: error }, `${messageOf(error)}; the page is not served`);
      return { routes: [], isBuilt: false };
    }
  }

  #watch(metrics: Metrics): Live {
    const { version, clock, log, services, limiter, deliveries } = this.#parts;
    const reader = new StateReader({
      version,
      startedAtMs: this.#startedAtMs,
      wallNow: Date.now,
      ready: () => services.every(({ ready }) => ready),
      healthy: () => services.every(({ healthy }) => healthy),
      stopping: () => this.#isStopping,
      figures: () => figuresOf(this.#parts),
      metrics,
      deliveries,
      trouble: () => log.trouble(),
      tenantOf: (name) => this.#tenantOf(name),
      hide: (text) => shownText(text, services),
    });
    const recorder = new TimelineRecorder({
      clock,
      wallNow: Date.now,
      admission: () => limiter.stats(),
      deliveries: () => deliveries.stats(),
      streams: () => services.reduce((sum, { streams }) => sum + streams, 0),
    });
    const live = new Live({
      clock,
      state: () => reader.read(),
      timeline: () => recorder.timeline(),
      onFailure: (error) => log.error({ err: error }, 'the state could not be read'),
    });
    recorder.onBucket((bucket) => live.bucket(bucket));
    this.#recorder = recorder;
    this.#live = live;
    return live;
  }

  async #openAdmin(): Promise<void> {
    const { config, clock, log, routes } = this.#parts;
    const { enabled, host, port, token, openMetrics: isOpen } = config.admin;
    const metrics = this.#metrics;
    if (!enabled || metrics === undefined) return;
    const text: Route = {
      methods: ['GET'],
      path: METRICS_PATH,
      handle: (exchange) => exchange.reply(200, { 'content-type': PROMETHEUS_TYPE }, metrics.text()),
    };
    try {
      const page = await this.#page();
      const live = this.#watch(metrics);
      this.#admin = await openAdmin(
        {
          ...(host === undefined ? {} : { host }),
          port,
          ...(token === undefined ? {} : { token }),
          ...(isOpen ? { openPath: METRICS_PATH } : {}),
          publicPaths: new Set(page.routes.map(({ path }) => path)),
          clock,
          onFailure: (error, path) => log.error({ err: error, path }, 'admin request failed'),
        },
        [text, ...live.routes, ...page.routes, ...routes],
      );
      const at = { host: host ?? '*', port: this.#admin.port, token: token !== undefined };
      log.info({ ...at, ...(page.isBuilt ? { page: urlOf(host, at.port) } : {}) }, 'admin listening');
    } catch (error) {
      const code = error instanceof HeadgateError ? error.code : undefined;
      this.#recorder?.close();
      log.error({ code }, `${messageOf(error)}; no metrics are served (HEADGATE_ADMIN moves the admin listener)`);
    }
  }

  async #openOtlp(): Promise<void> {
    const { version, config, log } = this.#parts;
    const { metrics, traces, metricsUrl, tracesUrl, intervalMs } = config.otlp;
    if (config.exit.always || !(metrics || traces)) return;
    const measured = this.#metrics;
    try {
      this.#otlp = await openOtlp({
        version,
        ...(metrics && measured !== undefined ? { collect: () => measured.collect() } : {}),
        traces,
        ...(metricsUrl === undefined ? {} : { metricsUrl }),
        ...(tracesUrl === undefined ? {} : { tracesUrl }),
        intervalMs,
        warn: (message) => log.warn({}, `OpenTelemetry: ${message}`),
      });
      log.info({ metrics, traces, intervalMs }, 'sending to an OpenTelemetry collector');
    } catch (error) {
      log.error({ err: error }, `Cannot send to an OpenTelemetry collector: ${messageOf(error)}`);
    }
  }
}

const METRICS_PATH = '/metrics';

/** Where the build puts the page; there is none beside the sources. */
const PAGE = new URL('../dashboard/', import.meta.url);

/** How a browser on this machine asks for the page. */
function urlOf(host: string | undefined, port: number): string {
  const isAny = host === undefined || host === '0.0.0.0' || host === '::';
  const name = isAny ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${port}/`;
}

function figuresOf({ config, limiter, deliveries, services, activeRequests }: TelemetryParts): Figures {
  const parts = services.map((service) => service.figures?.() ?? {});
  const decisions = parts.map((part) => part.decisions).find((part) => part !== undefined);
  const flags = parts.map((part) => part.flags).find((part) => part !== undefined);
  return {
    admission: limiter.stats(),
    slotsMax: config.limits.slots,
    parkedMax: config.limits.parking ? config.limits.parked : 0,
    queueMax: config.limits.queue,
    memoryLimitBytes: config.machine.memoryLimitBytes,
    pinnedBytesMax: config.limits.pinnedBytesMax,
    deliveries: deliveries.stats(),
    kernelHeldBytes: deliveries.kernelHeldBytes(),
    activeRequests: activeRequests(),
    ready: services.every(({ ready }) => ready),
    stores: parts.flatMap((part) => part.stores ?? []),
    environments: parts.flatMap((part) => part.environments ?? []),
    ...(flags === undefined ? {} : { flags }),
    ...(decisions === undefined ? {} : { decisions }),
  };
}
