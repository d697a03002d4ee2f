import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A span as it goes over the wire, as far as tests look at it. */
export interface CollectedSpan {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
}

/** A metric as it goes over the wire, as far as tests look at it. */
export interface CollectedMetric {
  readonly name: string;
  readonly unit: string;
  readonly sum?: { readonly dataPoints: readonly object[]; readonly isMonotonic: boolean };
  readonly gauge?: { readonly dataPoints: readonly object[] };
  readonly histogram?: { readonly dataPoints: readonly object[] };
}

interface Body {
  readonly resourceMetrics?: readonly { scopeMetrics: readonly { metrics: readonly CollectedMetric[] }[] }[];
  readonly resourceSpans?: readonly { scopeSpans: readonly { spans: readonly CollectedSpan[] }[] }[];
}

/** What stands in for an OpenTelemetry collector: takes OTLP as JSON over HTTP, and keeps it. */
export class Collector {
  readonly spans: CollectedSpan[] = [];
  /** As they were last sent. */
  metrics: readonly CollectedMetric[] = [];
  /** The resources of all requests, as JSON. */
  readonly resources: Set<string> = new Set();
  readonly #server: http.Server;

  private constructor() {
    this.#server = http.createServer((request, response) => {
      void text(request).then((body) => {
        this.#take(JSON.parse(body) as Body);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      });
    });
  }

  static async start(): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>((resolve) => collector.#server.listen(0, '127.0.0.1', resolve));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #take({ resourceMetrics = [], resourceSpans = [] }: Body): void {
    for (const each of [...resourceMetrics, ...resourceSpans]) {
      this.resources.add(JSON.stringify((each as { resource?: unknown }).resource));
    }
    this.spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)));
    const metrics = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    if (metrics.length > 0) this.metrics = metrics;
  }
}
