import http from 'node:http';
import { parsePosition } from '../../src/dataset/index.ts';
import { type ReplicaChange, type ReplicasHistory, ReplicaView } from './replicas-history.ts';

/**
 * `fdv1`: takes catch-ups. `fdv1-full`: gets a full copy at each reconnect, and names its position all the same.
 * `fdv2-poll` asks with its basis, `fdv1-poll` with the tag of what it has.
 */
export type ReplicaClientKind = 'fdv1' | 'fdv1-full' | 'fdv2' | 'fdv2-poll' | 'fdv1-poll';

export interface ReplicaClientOptions {
  readonly kind: ReplicaClientKind;
  /** Of the balancer. */
  readonly url: string;
  readonly key: string;
  readonly history: ReplicasHistory;
  readonly pollMs: number;
  /** How long it keeps a stream, at most: then it leaves by itself. */
  readonly stayMsMax: number;
  readonly random?: () => number;
}

const AGENT: Readonly<Record<ReplicaClientKind, string>> = {
  fdv1: 'NodeJSClient/9.13.7',
  'fdv1-full': 'PythonClient/9.20.0',
  fdv2: 'GoClient/7.14.6',
  'fdv2-poll': 'GoClient/7.14.6',
  'fdv1-poll': 'PHPClient/6.4.0',
};

const PATH: Readonly<Record<ReplicaClientKind, string>> = {
  fdv1: '/all',
  'fdv1-full': '/all',
  fdv2: '/sdk/stream',
  'fdv2-poll': '/sdk/poll',
  'fdv1-poll': '/sdk/latest-all',
};

/** Long for a test, short for a fleet. */
const RETRY_MS = 250;

interface ReplicaEvent {
  readonly name: string;
  readonly data: string;
  readonly id: string | undefined;
}

/**
 * A client that comes back again and again, each time over a connection of its own, so that it changes replica. It names
 * the position that it was given last, and looks at what it is given.
 */
export class ReplicaClient {
  readonly kind: ReplicaClientKind;
  readonly view: ReplicaView;
  /** The position that it names. */
  position: string | undefined;
  /** Of bodies. */
  bytes = 0;
  fulls = 0;
  connects = 0;
  /** Connections that had no answer, or lost it. */
  breaks = 0;
  /** Answers of each status. */
  readonly statuses: Map<number, number> = new Map();
  readonly #options: ReplicaClientOptions;
  readonly #random: () => number;
  #etag: string | undefined;
  #request: http.ClientRequest | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Whether it leaves by itself. */
  #isRestless = true;
  #transfer: { isFull: boolean; readonly changes: ReplicaChange[] } = { isFull: false, changes: [] };

  constructor(options: ReplicaClientOptions) {
    this.kind = options.kind;
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.view = new ReplicaView(options.history);
  }

  start(): void {
    this.#connect();
  }

  /** From now on it stays where it is. */
  settle(): void {
    this.#isRestless = false;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#request?.destroy();
  }

  /** The digest that it has been given, whatever its protocol. */
  get digest(): string | undefined {
    if (this.kind === 'fdv1-poll') return this.#etag?.slice('relay-'.length);
    return this.position === undefined ? undefined : parsePosition(this.position)?.digest;
  }

  get #isPoll(): boolean {
    return this.kind === 'fdv2-poll' || this.kind === 'fdv1-poll';
  }

  #connect(): void {
    if (this.#isClosed) return;
    this.connects += 1;
    const url = new URL(PATH[this.kind], this.#options.url);
    const headers: Record<string, string> = {
      authorization: this.#options.key,
      'user-agent': AGENT[this.kind],
      ...(this.#etag === undefined ? {} : { 'if-none-match': this.#etag }),
    };
    if (this.position !== undefined) {
      if (this.kind.startsWith('fdv2')) url.searchParams.set('basis', this.position);
      if (!this.#isPoll) headers['last-event-id'] = this.position;
    }
    const request = http.get(url, { headers, agent: false });
    this.#request = request;
    let isOver = false;
    const over = (isBroken: boolean): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(this.#timer);
      if (isBroken) this.breaks += 1;
      if (this.#isClosed) return;
      const waitMs = isBroken ? RETRY_MS : this.#isPoll ? this.#options.pollMs : 0;
      this.#timer = setTimeout(() => this.#connect(), waitMs * (0.5 + this.#random()));
    };
    request.on('error', () => over(true));
    request.on('response', (response) => this.#take(response, over));
  }

  #take(response: http.IncomingMessage, over: (isBroken: boolean) => void): void {
    const status = response.statusCode ?? 0;
    response.on('data', (bytes: Buffer) => (this.bytes += bytes.length));
    response.on('error', () => over(true));
    response.setEncoding('utf8');
    if (status !== 200) {
      response.resume();
      response.on('end', () => over(status !== 304));
      return;
    }
    if (this.#isPoll) this.#takePoll(response, over);
    else this.#takeStream(response, over);
  }

  #takePoll(response: http.IncomingMessage, over: (isBroken: boolean) => void): void {
    let body = '';
    response.on('data', (text: string) => (body += text));
    response.on('end', () => {
      if (this.kind === 'fdv1-poll') {
        this.#all(JSON.parse(body));
        this.#etag = response.headers.etag;
      } else {
        const { events } = JSON.parse(body) as { events: { event: string; data: unknown }[] };
        this.#transfer = { isFull: false, changes: [] };
        for (const { event, data } of events) this.#transferEvent(event, data as TransferData);
      }
      over(false);
    });
  }

  #takeStream(response: http.IncomingMessage, over: (isBroken: boolean) => void): void {
    let begun = '';
    this.#transfer = { isFull: false, changes: [] };
    let isLeft = false;
    response.on('data', (text: string) => {
      // what arrives after it has left is nobody's
      if (isLeft) return;
      begun += text;
      for (let end = begun.indexOf('\n\n'); end !== -1; end = begun.indexOf('\n\n')) {
        const event = readEvent(begun.slice(0, end));
        begun = begun.slice(end + 2);
        if (event !== undefined) this.#event(event);
      }
    });
    response.on('end', () => over(true));
    response.on('close', () => over(!isLeft));
    const leave = (): void => {
      if (!this.#isRestless) return;
      isLeft = true;
      response.destroy();
      over(false);
    };
    this.#timer = setTimeout(leave, this.#options.stayMsMax * this.#random());
  }

  #event({ name, data, id }: ReplicaEvent): void {
    const parsed: unknown = data === '' ? undefined : JSON.parse(data);
    if (this.kind === 'fdv2') this.#transferEvent(name, parsed as TransferData);
    else if (name === 'put') this.#all((parsed as { data: AllData }).data);
    else if (name === 'patch' || name === 'delete') {
      const { path, data: item, version } = parsed as { path: string; data?: { version: number }; version?: number };
      this.view.change({ id: path.slice(1), version: item?.version ?? version ?? 0, deleted: name === 'delete' });
    }
    if (id !== undefined) this.position = id;
  }

  #all(data: AllData): void {
    this.fulls += 1;
    this.view.full(
      Object.entries(data).flatMap(([kind, items]) =>
        Object.entries(items).map(([key, { version }]) => ({ id: `${kind}/${key}`, version, deleted: false })),
      ),
    );
  }

  #transferEvent(name: string, data: TransferData): void {
    const { changes } = this.#transfer;
    switch (name) {
      case 'server-intent':
        this.#transfer = { isFull: data.payloads?.[0]?.intentCode === 'xfer-full', changes: [] };
        return;
      case 'put-object':
      case 'delete-object': {
        const id = `${data.kind}s/${data.key}`;
        changes.push({ id, version: data.version ?? 0, deleted: name === 'delete-object' });
        return;
      }
      case 'payload-transferred':
        if (this.#transfer.isFull) {
          this.fulls += 1;
          this.view.full(changes);
        } else for (const change of changes) this.view.change(change);
        this.#transfer = { isFull: false, changes: [] };
        this.position = data.state;
        return;
      default:
    }
  }
}

type AllData = Readonly<Record<string, Readonly<Record<string, { version: number }>>>>;

interface TransferData {
  readonly payloads?: readonly { readonly intentCode: string }[];
  readonly kind?: string;
  readonly key?: string;
  readonly version?: number;
  readonly state?: string;
}

function readEvent(text: string): ReplicaEvent | undefined {
  let [name, data, id]: [string, string, string | undefined] = ['message', '', undefined];
  let hasData = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('data: ')) {
      data += line.slice(6);
      hasData = true;
    }
  }
  return hasData ? { name, data, id } : undefined;
}
