import { type Linked, List } from './list.ts';

/** Server credentials go before public IDs this many times in a row, then one public caller has its turn. */
const SERVER_RUN = 8;

/** First-time clients go before returning ones this many times in a row: every eighth turn is a returning client's. */
const FIRST_RUN = 7;

/** `aheadOf` looks at this many tenants. More would make the cost of joining grow with them, and a lower bound will do. */
const TENANTS_COUNTED_MAX = 64;

/** What decides where a caller stands. */
export interface Seat {
  readonly tenant: string;
  readonly klass: 'server' | 'public';
  readonly returning: boolean;
}

/** Who waits for one tenant in one class. */
class Tenant<T> implements Linked<Tenant<T>> {
  readonly name: string;
  readonly first: List<Ticket<T>> = new List();
  readonly returning: List<Ticket<T>> = new List();
  /** How often in a row a first-time client went before a returning one that waited. */
  firstRun = 0;
  before: Tenant<T> | undefined;
  after: Tenant<T> | undefined;

  constructor(name: string) {
    this.name = name;
  }

  get length(): number {
    return this.first.length + this.returning.length;
  }

  nextLane(): List<Ticket<T>> {
    if (this.returning.length === 0) return this.first;
    return this.first.length === 0 || this.firstRun >= FIRST_RUN ? this.returning : this.first;
  }

  /** A lower bound on how many of its own go before a caller that joins now. */
  aheadOf(returning: boolean): number {
    const [own, others] = returning
      ? [this.returning.length, this.first.length]
      : [this.first.length, this.returning.length];
    return own + Math.min(others, returning ? own * FIRST_RUN : Math.floor(own / FIRST_RUN));
  }
}

/** The tenants of one class that have somebody waiting, in a ring: the first has the next turn, then goes to the end. */
class Class<T> {
  readonly tenants: Map<string, Tenant<T>> = new Map();
  readonly ring: List<Tenant<T>> = new List();
  size = 0;

  tenantOf(name: string): Tenant<T> {
    let tenant = this.tenants.get(name);
    if (tenant === undefined) {
      tenant = new Tenant(name);
      this.tenants.set(name, tenant);
      this.ring.push(tenant);
    }
    return tenant;
  }

  /** Forgets a tenant that nobody waits for. */
  forget(tenant: Tenant<T>): void {
    this.ring.remove(tenant);
    this.tenants.delete(tenant.name);
  }

  /** A lower bound on how many of this class go before a caller that joins now. */
  aheadOf(seat: Seat): number {
    const own = this.tenants.get(seat.tenant);
    const ownAhead = own?.aheadOf(seat.returning) ?? 0;
    let ahead = ownAhead;
    let counted = 0;
    for (const tenant of this.ring) {
      if (counted++ === TENANTS_COUNTED_MAX) break;
      if (tenant !== own) ahead += Math.min(tenant.length, ownAhead);
    }
    return ahead;
  }
}

/** A caller's place in a {@link FairQueue}. */
export class Ticket<T> implements Linked<Ticket<T>> {
  readonly value: T;
  readonly group: Class<T>;
  readonly tenant: Tenant<T>;
  readonly lane: List<Ticket<T>>;
  before: Ticket<T> | undefined;
  after: Ticket<T> | undefined;

  constructor(value: T, group: Class<T>, seat: Seat) {
    this.value = value;
    this.group = group;
    this.tenant = group.tenantOf(seat.tenant);
    this.lane = seat.returning ? this.tenant.returning : this.tenant.first;
  }
}

/**
 * A queue that is fair between classes, between tenants, and between new and returning clients, and in order of
 * arrival otherwise. It orders and never refuses: whoever waits alone is next.
 *
 * ```
 *            8 turns                                    7 turns
 *  next ◄─┬───────── server ── ring: [ tenant a ]─┬─────────── first-time ◄ ◄ ◄
 *         │                          [ tenant b ] └─────────── returning  ◄ ◄
 *         │                          [ tenant c ]       1 turn
 *         │  1 turn                  one turn each
 *         └───────── public ── ring: [ tenant a ] ...
 * ```
 *
 * Joining, leaving from the middle, and being next cost the same however many wait. A tenant nobody waits for
 * takes no memory.
 */
export class FairQueue<T> {
  readonly #server: Class<T> = new Class();
  readonly #public: Class<T> = new Class();
  readonly #fair: boolean;
  #next: Ticket<T> | undefined;
  /** How often in a row a server credential went before a public caller that waited. */
  #serverRun = 0;

  /** @param fair - false: one line for all, in order of arrival. */
  constructor(fair: boolean) {
    this.#fair = fair;
  }

  get size(): number {
    return this.#server.size + this.#public.size;
  }

  push(value: T, seat: Seat): Ticket<T> {
    const place = this.#seatOf(seat);
    const ticket = new Ticket(value, this.#groupOf(place), place);
    ticket.lane.push(ticket);
    ticket.group.size++;
    return ticket;
  }

  /** Who is next. Once named it stays next until it is taken or removed: whoever joins meanwhile does not overtake it. */
  next(): Ticket<T> | undefined {
    this.#next ??= this.#nextGroup().ring.first?.nextLane().first;
    return this.#next;
  }

  /** Takes out the one that is next, and ends the turn of its lane, tenant and class. */
  take(next: Ticket<T>): void {
    const { group, tenant, lane } = next;
    const passedOver = lane === tenant.first && tenant.returning.length > 0;
    tenant.firstRun = passedOver ? tenant.firstRun + 1 : 0;
    this.#serverRun = group === this.#server && this.#public.size > 0 ? this.#serverRun + 1 : 0;
    group.ring.remove(tenant);
    group.ring.push(tenant);
    this.remove(next);
  }

  /** Takes out a caller that is in; it costs nobody a turn. */
  remove(ticket: Ticket<T>): void {
    const { group, tenant, lane } = ticket;
    lane.remove(ticket);
    group.size--;
    if (tenant.length === 0) group.forget(tenant);
    if (this.#next === ticket) this.#next = undefined;
  }

  /** A lower bound on how many go before a caller that joins now. */
  aheadOf(seat: Seat): number {
    const place = this.#seatOf(seat);
    const group = this.#groupOf(place);
    const ahead = group.aheadOf(place);
    return group === this.#server
      ? ahead + Math.min(this.#public.size, Math.floor(ahead / SERVER_RUN))
      : ahead + Math.min(this.#server.size, ahead * SERVER_RUN);
  }

  #seatOf(seat: Seat): Seat {
    return this.#fair ? seat : { tenant: '', klass: 'server', returning: false };
  }

  #groupOf(seat: Seat): Class<T> {
    return seat.klass === 'public' ? this.#public : this.#server;
  }

  #nextGroup(): Class<T> {
    if (this.#public.size === 0) return this.#server;
    return this.#server.size === 0 || this.#serverRun >= SERVER_RUN ? this.#public : this.#server;
  }
}
