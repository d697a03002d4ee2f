import type { Definition } from './instruments.ts';

/** From a request that finds a slot to one that waits as long as it may. */
const WAIT_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30] as const;
/** From one write to a reader at the floor rate. */
const DELIVERY_BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;
/** From a change that is taken at once to a bouncer that asks once an hour. */
const LATENCY_BOUNDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600] as const;
/** From one small page to an answer of a million decisions. */
const ENCODE_BOUNDS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;
/** Those that OpenTelemetry advises for HTTP, without the one that nothing here reaches. */
const HTTP_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10] as const;
/** The local API's own. */
const LAPI_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1] as const;

type Metrics<Name extends string> = Readonly<Record<Name, Definition>>;

function counter(name: string, help: string, labels: readonly string[] = []): Definition {
  return { name, type: 'counter', help, labels };
}

function gauge(name: string, help: string, labels: readonly string[] = []): Definition {
  return { name, type: 'gauge', help, labels };
}

/** The budget: slots, the queue, and the bytes that deliveries pin. */
export const ADMISSION: Metrics<
  | 'slotsMax'
  | 'held'
  | 'parked'
  | 'parkedMax'
  | 'waiting'
  | 'queueMax'
  | 'waitingOpen'
  | 'pinned'
  | 'pinnedMax'
  | 'admitted'
  | 'refused'
  | 'wait'
> = {
  slotsMax: gauge('headgate.admission.slots.max', 'Slots there are; absent without a limit'),
  held: gauge('headgate.admission.held', 'Slots held by deliveries'),
  parked: gauge('headgate.admission.parked', 'Slots given up by readers that take nothing'),
  parkedMax: gauge(
    'headgate.admission.parked.max',
    'Readers that may have given up their slot; absent without a limit',
  ),
  waiting: gauge('headgate.admission.waiting', 'Requests in the queue'),
  queueMax: gauge('headgate.admission.queue.max', 'Requests that the queue has room for; absent without a limit'),
  waitingOpen: gauge('headgate.admission.waiting.open', 'Open streams that wait for a slot, outside the queue'),
  pinned: { ...gauge('headgate.admission.pinned', 'Bytes that only deliveries keep in memory'), unit: 'By' },
  pinnedMax: { ...gauge('headgate.admission.pinned.max', 'Pinned bytes beyond which nobody is admitted'), unit: 'By' },
  admitted: counter('headgate.admission.admitted', 'Requests that got a slot'),
  refused: counter('headgate.admission.refused', 'Requests that got no slot, by cause', ['reason']),
  wait: {
    name: 'headgate.admission.wait',
    type: 'histogram',
    unit: 's',
    help: 'How long those waited who asked for a slot, by whether they got one',
    labels: ['front', 'answer'],
    bounds: WAIT_BOUNDS,
  },
};

/** What is sent. `tenant` is the environment; empty for decisions. */
export const DELIVERY: Metrics<
  | 'active'
  | 'parked'
  | 'kernelHeld'
  | 'started'
  | 'parks'
  | 'ended'
  | 'duration'
  | 'refusals'
  | 'small'
  | 'sent'
  | 'saved'
  | 'compressedAway'
> = {
  active: gauge('headgate.deliveries.active', 'Deliveries between their first and their last byte'),
  parked: gauge('headgate.deliveries.parked', 'Of these, those that have given up their slot'),
  kernelHeld: {
    ...gauge('headgate.deliveries.kernel.held', 'Bytes that the kernel holds for deliveries in progress'),
    unit: 'By',
  },
  started: counter('headgate.deliveries.started', 'Deliveries that began'),
  parks: counter('headgate.deliveries.parks', 'Times that a slot was given up by a reader that took nothing'),
  ended: counter('headgate.deliveries', 'Deliveries that ended: what was sent, and how it ended', [
    'front',
    'tenant',
    'route',
    'copy',
    'outcome',
  ]),
  duration: {
    name: 'headgate.delivery.duration',
    type: 'histogram',
    unit: 's',
    help: 'From the slot to the last byte',
    labels: ['front', 'copy', 'outcome'],
    bounds: DELIVERY_BOUNDS,
  },
  refusals: counter('headgate.refusals', 'Requests answered 503 for want of a slot, by cause', [
    'front',
    'tenant',
    'route',
    'reason',
  ]),
  small: counter('headgate.small.answers', 'Answers that needed no slot', ['front', 'tenant', 'route', 'copy']),
  sent: {
    ...counter('headgate.sent', 'Bytes of bodies, by what they were and how encoded', ['front', 'copy', 'encoding']),
    unit: 'By',
  },
  saved: {
    ...counter(
      'headgate.saved',
      'Bytes that catch-ups spared: the last full copy of the same route, less what was sent',
      ['front'],
    ),
    unit: 'By',
  },
  compressedAway: {
    ...counter('headgate.compression.saved', 'Bytes that compression spared in deliveries that were completed', [
      'front',
    ]),
    unit: 'By',
  },
};

/** Data on their way: encoded once, then taken by each client. */
export const CHANGES: Metrics<'latency' | 'behind' | 'encode' | 'encoded'> = {
  latency: {
    name: 'headgate.change.latency',
    type: 'histogram',
    unit: 's',
    help: 'From a change to a client that has taken it',
    labels: ['front'],
    bounds: LATENCY_BOUNDS,
  },
  behind: gauge('headgate.clients.behind', 'Clients by how many changes they have yet to get', ['front', 'lag']),
  encode: {
    name: 'headgate.encode',
    type: 'histogram',
    unit: 's',
    help: 'How long a piece of work took that encoded pages for all who want them',
    labels: ['front', 'encoding'],
    bounds: ENCODE_BOUNDS,
  },
  encoded: { ...counter('headgate.encoded', 'Bytes that were made in it', ['front', 'encoding']), unit: 'By' },
};

/** Flags. */
export const FLAGS: Metrics<
  'streams' | 'items' | 'size' | 'ready' | 'connected' | 'changedAge' | 'lost' | 'failed' | 'stepsBack' | 'eventsLost'
> = {
  streams: gauge('headgate.streams', 'Open streams', ['tenant']),
  items: gauge('headgate.environment.items', 'Flags and segments held', ['tenant']),
  size: {
    ...gauge('headgate.environment.size', 'A full copy before compression, as it was last sent', ['tenant']),
    unit: 'By',
  },
  ready: gauge('headgate.environment.ready', 'Whether there is data: 1 or 0', ['tenant']),
  connected: gauge('headgate.environment.connected', 'Whether /status calls it connected: 1 or 0', ['tenant']),
  changedAge: { ...gauge('headgate.environment.age', 'Since data last came from the source', ['tenant']), unit: 's' },
  lost: counter('headgate.streams.lost', 'Streams closed by us because they fell off the log', ['tenant']),
  failed: counter('headgate.streams.failed', 'Streams reset by us because of a fault of ours', ['tenant']),
  stepsBack: counter('headgate.steps.back', 'Clients that seemed to hold newer data, and were sent ours', ['tenant']),
  eventsLost: counter('headgate.events.lost', 'Events that did not arrive upstream, by cause', ['tenant', 'reason']),
};

/** Evaluation of flags for browsers and phones. */
export const EVALUATION: Metrics<
  | 'done'
  | 'queued'
  | 'running'
  | 'cacheHits'
  | 'cacheMisses'
  | 'cacheSize'
  | 'threads'
  | 'threadFailures'
  | 'unreadable'
> = {
  done: counter('headgate.evaluations', 'Contexts that flags were evaluated for'),
  queued: gauge('headgate.evaluations.queued', 'Evaluations that wait for a thread'),
  running: gauge('headgate.evaluations.running', 'Evaluations under way'),
  cacheHits: counter('headgate.evaluations.cache.hits', 'Requests answered from an earlier evaluation'),
  cacheMisses: counter('headgate.evaluations.cache.misses', 'Requests that needed an evaluation'),
  cacheSize: { ...gauge('headgate.evaluations.cache.size', 'Memory that results take'), unit: 'By' },
  threads: gauge('headgate.evaluations.threads', 'Threads that evaluate; none before the first request'),
  threadFailures: counter(
    'headgate.evaluations.thread.failures',
    'Threads that ended by themselves, and were replaced',
  ),
  unreadable: counter('headgate.evaluations.unreadable', 'Items that the evaluator could not read'),
};

/** Decisions. */
export const DECISIONS: Metrics<
  | 'held'
  | 'tombstones'
  | 'bytes'
  | 'offset'
  | 'positions'
  | 'sourceUp'
  | 'sourceAge'
  | 'sourceItems'
  | 'unavailable'
  | 'cursors'
  | 'keys'
  | 'notForwarded'
> = {
  held: gauge('headgate.decisions', 'Decisions held', ['origin', 'type']),
  tombstones: gauge('headgate.decisions.tombstones', 'Ends of decisions that are remembered'),
  bytes: { ...gauge('headgate.decisions.size', 'Memory that decisions take'), unit: 'By' },
  offset: gauge('headgate.decisions.offset', 'Offset of the last change'),
  positions: gauge('headgate.cursors', 'Bouncers, by address and filter, of which it is known where they stand'),
  sourceUp: gauge(
    'headgate.source.up',
    'Whether the source answered, or the file could be read, when it was last looked at: 1 or 0; of flags, files alone',
    ['source'],
  ),
  sourceAge: { ...gauge('headgate.source.age', 'Since the source last answered', ['source']), unit: 's' },
  sourceItems: gauge('headgate.source.decisions', 'Decisions that come from the source', ['source']),
  unavailable: counter('headgate.unavailable', 'Requests that could not be answered yet, by cause', ['reason']),
  cursors: counter('headgate.cursor.events', 'Cursors seen shared by two bouncers, or dropped: too many', ['event']),
  keys: counter('headgate.key.events', 'Keys learned from an upstream, or dropped because it refuses them', ['event']),
  notForwarded: counter('headgate.not.forwarded', 'Requests that could not be passed on to the upstream', ['route']),
};

/** The process. The names without `headgate` are those that every Prometheus client has. */
export const PROCESS: Metrics<
  'info' | 'loopDelay' | 'loopActive' | 'memory' | 'memoryLimit' | 'cpu' | 'resident' | 'started'
> = {
  info: gauge('headgate_build_info', 'Always 1; the labels tell the versions', ['version', 'node']),
  loopDelay: {
    ...gauge('headgate.loop.delay', 'How late the event loop was, in the last 10 s', ['quantile']),
    unit: 's',
  },
  loopActive: { ...counter('headgate.loop.active', 'Time in which the event loop was not waiting'), unit: 's' },
  memory: { ...gauge('headgate.memory', 'Memory of the process by kind', ['kind']), unit: 'By' },
  memoryLimit: {
    ...gauge('headgate.memory.limit', 'Memory that the process may use: the limit of its container, or the machine'),
    unit: 'By',
  },
  cpu: counter('process_cpu_seconds_total', 'CPU time of the process'),
  resident: gauge('process_resident_memory_bytes', 'Resident memory of the process'),
  started: gauge('process_start_time_seconds', 'Unix time at which the process began'),
};

/** Whether it serves, and keeps what it serves for the next start. */
export const HEALTH: Metrics<'ready' | 'storeFailing'> = {
  ready: gauge('headgate.ready', 'Whether /health/ready says so: 1 or 0'),
  storeFailing: gauge(
    'headgate.store.failing',
    'Whether the store of the configuration cannot be written, by what it keeps: 1 or 0',
    ['store'],
  ),
};

/** Requests, by the names of OpenTelemetry. */
export const HTTP: Metrics<'active' | 'duration'> = {
  active: gauge('http.server.active_requests', 'Requests under way, open streams among them'),
  duration: {
    name: 'http.server.request.duration',
    type: 'histogram',
    unit: 's',
    help: 'From the request to the end of its answer; of a stream, as long as it was open',
    labels: ['http.request.method', 'http.route', 'http.response.status_code'],
    bounds: HTTP_BOUNDS,
  },
};

/** The names of the flags vendor's relay, version 9. */
export const RELAY_9: Metrics<
  'requests' | 'held' | 'waiting' | 'admitted' | 'rejected' | 'deliveries' | 'sheds' | 'upToDate' | 'deadlineErrors'
> = {
  requests: counter('launchdarkly.relay.requests', 'Requests by environment', ['env', 'route', 'method', 'userAgent']),
  held: gauge('launchdarkly.relay.init.slots.held', 'Slots held by deliveries'),
  waiting: gauge('launchdarkly.relay.init.queue.waiting', 'Requests in the queue'),
  admitted: counter('launchdarkly.relay.init.admitted', 'Requests that got a slot'),
  rejected: counter('launchdarkly.relay.init.rejected', 'Requests that got no slot', ['reason']),
  deliveries: counter('launchdarkly.relay.init.deliveries', 'Deliveries that ended', [
    'protocol',
    'outcome',
    'cap_engaged',
  ]),
  sheds: counter('launchdarkly.relay.init.sheds', 'Requests answered 503 for want of a slot', ['transport']),
  upToDate: counter('launchdarkly.relay.init.replays.up_to_date', 'Clients that missed nothing', ['after_wait']),
  deadlineErrors: counter('launchdarkly.relay.init.deadline.set_errors', 'Always 0: no deadline is set on a socket'),
};

/** The state of a relay and its events, by the names of the flags vendor's relay, version 9. */
export const RELAY_9_STATE: Metrics<
  | 'status'
  | 'environments'
  | 'statuses'
  | 'connections'
  | 'dataStores'
  | 'expiringKeys'
  | 'eventsReceived'
  | 'eventsSent'
  | 'eventsSentSize'
  | 'eventsFailed'
  | 'eventsDropped'
  | 'eventsPending'
> = {
  status: gauge('launchdarkly.relay.status', 'Whether all is well: 1 in the state that it is in', ['state']),
  environments: gauge('launchdarkly.relay.environment.count', 'Environments served'),
  statuses: gauge('launchdarkly.relay.environment.status.count', 'Environments by status', ['state']),
  connections: gauge('launchdarkly.relay.environment.connection.state.count', 'Environments by how their source is', [
    'state',
  ]),
  dataStores: gauge('launchdarkly.relay.environment.datastore.state.count', 'Environments by how their store is', [
    'state',
  ]),
  expiringKeys: gauge('launchdarkly.relay.environment.expiring_key.count', 'Environments with a key that will expire'),
  eventsReceived: {
    ...counter('launchdarkly.relay.events.received.size', 'Bytes of events that came, inflated', ['env']),
    unit: 'By',
  },
  eventsSent: counter('launchdarkly.relay.events.sent', 'Events that arrived upstream', ['env']),
  eventsSentSize: {
    ...counter('launchdarkly.relay.events.sent.size', 'Bytes of events that arrived upstream, inflated', ['env']),
    unit: 'By',
  },
  eventsFailed: counter('launchdarkly.relay.events.failed', 'Events given up after every try', ['env']),
  eventsDropped: counter('launchdarkly.relay.events.dropped', 'Events given up before they were sent', ['env']),
  eventsPending: gauge('launchdarkly.relay.events.pending', 'Events that wait to be sent'),
};

/** The names of the flags vendor's relay, version 8, behind a prefix that can be set. Its types are kept with them. */
export const RELAY_8: Metrics<'connections' | 'newConnections' | 'requests'> = {
  connections: counter('connections', 'current number of connections', ['env', 'platformCategory', 'userAgent']),
  newConnections: counter('newconnections', 'total number of connections', ['env', 'platformCategory', 'userAgent']),
  requests: counter('requests', 'Number of hits to a route', [
    'env',
    'method',
    'platformCategory',
    'route',
    'userAgent',
  ]),
};

/** The local API's names. */
export const LAPI: Metrics<
  'routeRequests' | 'bouncerRequests' | 'decisionsOk' | 'decisionsKo' | 'duration' | 'active' | 'info'
> = {
  routeRequests: counter('cs_lapi_route_requests_total', 'Number of calls to each route per method.', [
    'route',
    'method',
  ]),
  bouncerRequests: counter(
    'cs_lapi_bouncer_requests_total',
    'Number of calls to each route per method grouped by bouncers.',
    ['bouncer', 'route', 'method'],
  ),
  decisionsOk: counter('cs_lapi_decisions_ok_total', 'Number of calls to /decisions that returned non-nil result.', [
    'bouncer',
  ]),
  decisionsKo: counter('cs_lapi_decisions_ko_total', 'Number of calls to /decisions that returned nil result.', [
    'bouncer',
  ]),
  duration: {
    name: 'cs_lapi_request_duration_seconds',
    type: 'histogram',
    help: 'Response time of LAPI',
    labels: ['endpoint', 'method'],
    bounds: LAPI_BOUNDS,
  },
  active: gauge('cs_active_decisions', 'Number of active decisions.', ['origin', 'action']),
  info: gauge('cs_info', 'Information about Crowdsec.', ['version']),
};

/** Every metric there is, those of version 8 under the prefix that its vendor gives them. */
export const CATALOG: readonly Definition[] = [
  ...[
    ADMISSION,
    DELIVERY,
    CHANGES,
    FLAGS,
    EVALUATION,
    DECISIONS,
    HEALTH,
    PROCESS,
    HTTP,
    RELAY_9,
    RELAY_9_STATE,
    LAPI,
  ].flatMap((group) => Object.values(group)),
  ...Object.values(RELAY_8).map((metric) => ({ ...metric, name: `launchdarkly_relay_${metric.name}` })),
];
