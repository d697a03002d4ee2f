/** What is wrong with a body, as the local API's generated code says it: a message, or a list of them. */
type Fault = string | readonly Fault[];

type Check = (value: unknown, path: string) => Fault | undefined;

const LENGTH_MAX = 255;
const LIST = 'validation failure list:\n';

/** A body that is no JSON of the expected types. */
export class BadBody extends Error {}

/** The names by which Go calls what JSON has. */
function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}

function typed(value: unknown, expected: string, path: string): void {
  if (kindOf(value) !== expected)
    throw new BadBody(`json: cannot unmarshal ${kindOf(value)} into ${path} of type ${expected}`);
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null;

function required(check: Check): Check {
  return (value, path) => (isAbsent(value) ? `${path} in body is required` : check(value, path));
}

function optional(check: Check): Check {
  return (value, path) => (isAbsent(value) ? undefined : check(value, path));
}

const text: Check = (value, path) => {
  typed(value, 'string', path);
  const tooLong = Array.from(value as string).length > LENGTH_MAX;
  return tooLong ? `${path} in body should be at most ${LENGTH_MAX} chars long` : undefined;
};

const anyText: Check = (value, path) => {
  typed(value, 'string', path);
  return undefined;
};

const number: Check = (value, path) => {
  typed(value, 'number', path);
  return undefined;
};

const integer: Check = (value, path) => {
  typed(value, 'number', path);
  if (!Number.isInteger(value))
    throw new BadBody(`json: cannot unmarshal number ${String(value)} into ${path} of type int64`);
  return undefined;
};

/** The first of them that is ill is all that is told. */
function listOf(check: Check): Check {
  return (value, path) => {
    typed(value, 'array', path);
    let fault: Fault | undefined;
    for (const [at, item] of (value as unknown[]).entries())
      fault ??= isAbsent(item) ? undefined : check(item, `${path}.${at}`);
    return fault;
  };
}

/** Members are looked at in order; others are let pass. */
function objectOf(members: Readonly<Record<string, Check>>): Check {
  return (value, path) => {
    typed(value, 'object', path);
    const faults: Fault[] = [];
    for (const [name, check] of Object.entries(members)) {
      const fault = check((value as Record<string, unknown>)[name], path === '' ? name : `${path}.${name}`);
      if (fault !== undefined) faults.push(fault);
    }
    return faults.length === 0 ? undefined : faults;
  };
}

const labels: Check = (value, path) => {
  typed(value, 'object', path);
  const faults: Fault[] = [];
  for (const [name, label] of Object.entries(value as object)) {
    const fault = optional(text)(label, `${path}.${name}`);
    if (fault !== undefined) faults.push(fault);
  }
  return faults.length === 0 ? undefined : faults;
};

const metricsItem = objectOf({
  labels: optional(labels),
  name: required(text),
  unit: required(text),
  value: required(number),
});

const detailedMetrics = objectOf({
  items: required(listOf(metricsItem)),
  meta: required(objectOf({ utc_now_timestamp: required(integer), window_size_seconds: required(integer) })),
});

const component = objectOf({
  metrics: optional(listOf(detailedMetrics)),
  os: optional(objectOf({ name: required(text), version: required(text), family: optional(text) })),
  utc_startup_timestamp: required(integer),
  version: required(text),
  feature_flags: optional(listOf(anyText)),
  type: optional(anyText),
  name: optional(anyText),
  last_pull: optional(integer),
});

const body = objectOf({ remediation_components: optional(listOf(component)) });

/** How many of each a body reports on. */
export interface Reported {
  readonly components: number;
  readonly processors: number;
}

/**
 * Reads a body of usage metrics.
 *
 * @returns what it reports on, or what is wrong with it by the local API's schema. Throws BadBody for what is no such JSON.
 */
export function readMetrics(json: string): Reported | { readonly fault: string } {
  const value = parsed(json);
  typed(value, 'object', 'body');
  const fault = body(value, '');
  if (fault !== undefined) return { fault: written(fault) };
  const { remediation_components: components, log_processors: processors } = value as Record<string, unknown>;
  return { components: lengthOf(components), processors: lengthOf(processors) };
}

function lengthOf(list: unknown): number {
  return Array.isArray(list) ? list.filter((item) => !isAbsent(item)).length : 0;
}

/** A list begins with a line of its own, also inside of another; at the very beginning it stands once. */
function written(fault: Fault): string {
  return collapsed(writtenWhole(fault));
}

function writtenWhole(fault: Fault): string {
  return typeof fault === 'string' ? fault : LIST + fault.map(writtenWhole).join('\n');
}

function collapsed(message: string): string {
  let rest = message;
  while (rest.startsWith(LIST + LIST)) rest = rest.slice(LIST.length);
  return rest;
}

function parsed(json: string): unknown {
  if (json.trim() === '') throw new BadBody('EOF');
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    throw new BadBody(causeOf(json, error instanceof Error ? error.message : ''));
  }
}

/** A body that breaks off is told from one that is wrong: the first was cut on its way. */
function causeOf(json: string, message: string): string {
  const position = /position (\d+)/.exec(message)?.[1];
  const character = position === undefined ? undefined : json.at(Number(position));
  if (character === undefined || Number(position) >= json.trimEnd().length) return 'unexpected EOF';
  return `invalid character '${character}' in JSON`;
}
