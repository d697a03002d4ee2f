import { HeadgateError, messageOf } from '../kernel/index.ts';
import {
  type Figures,
  type Metrics,
  openMetrics,
  openOtlp,
  type Otlp,
  PROMETHEUS_TYPE,
} from '../observability/index.ts';
import { type Admin, openAdmin, type Route } from '../server/index.ts';
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
  #admin: Admin | undefined;
  #otlp: Otlp | undefined;

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

  async stop(): Promise<void> {
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
      tenantOf: (name) =>
        services.map((service) => service.tenantOf?.(name)).find((label) => label !== undefined) ?? name,
      ...(relay8Prefix === undefined ? {} : { relay8Prefix }),
    });
  }

  async #openAdmin(): Promise<void> {
    const { config, clock, log, routes } = this.#parts;
    const { enabled, host, port, token, openMetrics: isOpen } = config.admin;
    const metrics = this.#metrics;
    if (!enabled || metrics === undefined) return;
    const page: Route = {
      methods: ['GET'],
      path: METRICS_PATH,
      handle: (exchange) => exchange.reply(200, { 'content-type': PROMETHEUS_TYPE }, metrics.text()),
    };
    try {
      this.#admin = await openAdmin(
        {
          ...(host === undefined ? {} : { host }),
          port,
          ...(token === undefined ? {} : { token }),
          ...(isOpen ? { openPath: METRICS_PATH } : {}),
          clock,
          onFailure: (error, path) => log.error({ err: error, path }, 'admin request failed'),
        },
        [page, ...routes],
      );
      log.info({ host: host ?? '*', port: this.#admin.port, token: token !== undefined }, 'admin listening');
    } catch (error) {
      const code = error instanceof HeadgateError ? error.code : undefined;
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

function figuresOf({ config, limiter, deliveries, services, activeRequests }: TelemetryParts): Figures {
  const parts = services.map((service) => service.figures?.() ?? {});
  const decisions = parts.map((part) => part.decisions).find((part) => part !== undefined);
  const flags = parts.map((part) => part.flags).find((part) => part !== undefined);
  return {
    admission: limiter.stats(),
    slotsMax: config.limits.slots,
    pinnedBytesMax: config.limits.pinnedBytesMax,
    deliveries: deliveries.stats(),
    kernelHeldBytes: deliveries.kernelHeldBytes(),
    activeRequests: activeRequests(),
    environments: parts.flatMap((part) => part.environments ?? []),
    ...(flags === undefined ? {} : { flags }),
    ...(decisions === undefined ? {} : { decisions }),
  };
}
