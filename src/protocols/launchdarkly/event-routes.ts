import type { Exchange } from '../../delivery/index.ts';
import { Bodies } from './bodies.ts';
import { clientOf } from './client.ts';
import { corsHeaders } from './clientside/cors.ts';
import { credentialOf, type EnvironmentInfo } from './credentials.ts';
import { factOf, requested } from './facts.ts';

type Audience = 'server' | 'mobile' | 'client';
type Params = Readonly<Record<string, string>>;

/** One path, as the front has them: methods other than those named are answered 405. */
export interface EventRoute {
  readonly methods: readonly string[];
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (exchange: Exchange, params: Params) => Promise<void> | void;
}

/** Events of one post, for whoever forwards them. */
export interface PostedEvents {
  readonly environmentId: string;
  /** What the events service knows the environment by: SDK key, mobile key or client-side ID. */
  readonly sdkKey: string;
  readonly audience: Audience;
  readonly what: 'bulk' | 'diagnostic';
  /** The path of the events service. */
  readonly path: string;
  /** Those that matter, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Inflated. */
  readonly body: Uint8Array;
}

/** Finds the environment of a credential, or says how to refuse. */
interface EventDirectory {
  find(
    audience: Audience,
    credential: string | undefined,
    filter: string | undefined,
  ):
    | { readonly environment: { readonly info: EnvironmentInfo } }
    | { readonly status: number; readonly text: string | undefined };
}

/** What the routes of events need. */
export interface EventRoutesOptions {
  readonly directory: EventDirectory;
  /**
   * Who takes the events. `discard`: nobody, and SDKs are not to notice, as where there is no upstream. Undefined: events are
   * off, and are refused.
   */
  readonly events: { accept(posted: PostedEvents): 'accepted' | 'dropped' } | 'discard' | undefined;
  /** Of one body, in bytes, before and after inflation. */
  readonly bodyBytesMax: number;
}

/** One place where events are posted, and where the events service has it. */
interface Place {
  readonly route: string;
  readonly audience: Audience;
  readonly what: 'bulk' | 'diagnostic';
  /** The client-side ID follows it, where there is one. */
  readonly upstream: string;
}

const place = (audience: Audience, what: Place['what'], route: string, upstream = route): Place => ({
  route,
  audience,
  what,
  upstream,
});

const PLACES: readonly Place[] = [
  place('server', 'bulk', '/bulk'),
  place('server', 'diagnostic', '/diagnostic'),
  place('mobile', 'bulk', '/mobile'),
  place('mobile', 'bulk', '/mobile/events', '/mobile'),
  place('mobile', 'bulk', '/mobile/events/bulk', '/mobile'),
  place('mobile', 'diagnostic', '/mobile/events/diagnostic'),
  place('client', 'bulk', '/events/bulk/:envId', '/events/bulk/'),
  place('client', 'diagnostic', '/events/diagnostic/:envId', '/events/diagnostic/'),
];

const IMAGE_PLACE: Place = place('client', 'bulk', '/a/:file', '/events/bulk/');
const IMAGE_SUFFIX = '.gif';
/** One transparent pixel, byte for byte the vendor's. */
const IMAGE: Buffer = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');
/** What pages without scripts that post send is written in. */
const IMAGE_SCHEMA = '3';

/** What a diagnostic event is forwarded with, and what decides how others are. */
const HEADERS: readonly string[] = [
  'accept',
  'user-agent',
  'x-launchdarkly-event-schema',
  'x-launchdarkly-instance-id',
  'x-launchdarkly-payload-id',
  'x-launchdarkly-tags',
  'x-launchdarkly-unsummarized',
  'x-launchdarkly-user-agent',
  'x-launchdarkly-wrapper',
];

const TEXT = {
  off: 'Event proxy is not enabled for this environment',
  empty: 'body may not be empty',
} as const;

const PLAIN = { 'content-type': 'text/plain; charset=utf-8' };

/**
 * Where SDKs post events. They are answered as soon as their body is here, whatever becomes of it: what an SDK could do about
 * an event that was dropped is to send it again.
 *
 * @example
 * const events = { accept: () => 'accepted' as const };
 * const directory = { find: () => ({ status: 401, text: undefined }) };
 * const routes = new EventRoutes({ directory, events, bodyBytesMax: 1_048_576 }).routes();
 * console.log(routes[0]?.path, routes.at(-1)?.path); // /bulk /a/:file
 */
export class EventRoutes {
  readonly #options: EventRoutesOptions;
  /** What anybody can send who has a page or an app takes nothing from servers. */
  readonly #bodies: { readonly ofServers: Bodies; readonly public: Bodies };

  constructor(options: EventRoutesOptions) {
    this.#options = options;
    const { bodyBytesMax } = options;
    this.#bodies = { ofServers: new Bodies(bodyBytesMax), public: new Bodies(bodyBytesMax) };
  }

  /** The paths of this part of the front. */
  routes(): readonly EventRoute[] {
    return [
      ...PLACES.map((at) => ({
        methods: at.audience === 'client' ? ['POST', 'OPTIONS'] : ['POST'],
        path: at.route,
        handle: (exchange: Exchange, params: Params) => this.#post(exchange, at, params),
      })),
      {
        methods: ['GET', 'OPTIONS'],
        path: IMAGE_PLACE.route,
        handle: (exchange, params) => this.#image(exchange, params),
      },
    ];
  }

  async #post(exchange: Exchange, at: Place, params: Params): Promise<void> {
    const client = this.#client(exchange, at, params['envId']);
    if (client === undefined) return;
    const { cors } = client;
    if (exchange.method === 'OPTIONS') return exchange.reply(200, cors);
    const { events } = this.#options;
    if (events === 'discard') return exchange.reply(202, cors);
    if (events === undefined) return replyMessage(exchange, 503, TEXT.off, cors);
    const body = await this.#bodies[at.audience === 'server' ? 'ofServers' : 'public'].read(exchange);
    if (body === undefined) return;
    if ('status' in body) return replyMessage(exchange, body.status, body.message, cors);
    if (body.bytes.length === 0) return replyMessage(exchange, 400, TEXT.empty, cors);
    exchange.reply(202, cors);
    const headers: Record<string, string> = {};
    for (const name of HEADERS) {
      const value = exchange.header(name);
      if (value !== undefined) headers[name] = value;
    }
    events.accept(postedOf(client, at, { headers, body: body.bytes }));
  }

  /** Events in the URL of a picture, from pages that can do nothing else. */
  #image(exchange: Exchange, params: Params): void {
    const file = params['file'] ?? '';
    if (!file.endsWith(IMAGE_SUFFIX)) return exchange.reply(404, PLAIN, '404 page not found\n');
    const client = this.#client(exchange, IMAGE_PLACE, file.slice(0, -IMAGE_SUFFIX.length));
    if (client === undefined) return;
    const { cors } = client;
    if (exchange.method === 'OPTIONS') return exchange.reply(200, cors);
    const { events } = this.#options;
    if (events === undefined || events === 'discard') return replyMessage(exchange, 503, TEXT.off, cors);
    exchange.reply(200, { ...cors, 'content-type': 'image/gif' }, IMAGE);
    // a plus sign is a space to a query
    const body = Buffer.from((exchange.query.get('d') ?? '').replaceAll(' ', '+'), 'base64');
    if (body.length === 0) return;
    events.accept(postedOf(client, IMAGE_PLACE, { headers: { 'x-launchdarkly-event-schema': IMAGE_SCHEMA }, body }));
  }

  /** Who asks. Undefined: the request was refused. */
  #client(exchange: Exchange, at: Place, envId: string | undefined): Client | undefined {
    const methods = at === IMAGE_PLACE ? ['GET', 'OPTIONS'] : ['POST', 'OPTIONS'];
    const isClient = at.audience === 'client';
    const credential = isClient ? envId : credentialOf(exchange.header('authorization'));
    const found = this.#options.directory.find(at.audience, credential, exchange.query.get('filter') ?? undefined);
    if (!('environment' in found)) {
      const headers = isClient ? { 'access-control-allow-methods': methods.join(',') } : {};
      exchange.reply(found.status, found.text === undefined ? headers : { ...PLAIN, ...headers }, found.text ?? '');
      return undefined;
    }
    const { environment } = found;
    const { info } = environment;
    const { method } = exchange;
    requested.publish(() => Object.assign(factOf(environment, at.route, clientOf(exchange)), { method }));
    const cors = isClient ? corsHeaders({ origin: exchange.header('origin'), info, methods }) : {};
    return { info, credential: credential ?? '', cors };
  }
}

interface Client {
  readonly info: EnvironmentInfo;
  readonly credential: string;
  readonly cors: Record<string, string>;
}

function postedOf(
  { info, credential }: Client,
  { audience, what, upstream }: Place,
  { headers, body }: Pick<PostedEvents, 'headers' | 'body'>,
): PostedEvents {
  // a key that is about to expire is not known upstream for longer than here
  const current =
    audience === 'server' ? info.sdkKeys.find(({ expiresMs }) => expiresMs === undefined)?.value : undefined;
  const sdkKey = current ?? credential;
  return {
    // what a filter leaves out of the data, it does not leave out of events
    environmentId: info.parentId ?? info.id,
    sdkKey,
    audience,
    what,
    path: audience === 'client' ? upstream + encodeURIComponent(sdkKey) : upstream,
    headers,
    body,
  };
}

/** As the vendor's relay says it: JSON that is called text. */
function replyMessage(exchange: Exchange, status: number, message: string, cors: Record<string, string>): void {
  exchange.reply(status, { ...PLAIN, ...cors }, JSON.stringify({ message }));
}
