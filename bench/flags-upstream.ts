/**
 * The service that flags come from, for the benchmark of restarts: one environment that changes when it is told to over its
 * channel. A process of its own, so that it goes on while the server is down.
 */
import { FakeUpstream } from '../test/support/fake-upstream.ts';
import { itemsOf, SDK_KEY, type Size } from './data.ts';

/** What it is told: to hold so much, or to change so many flags, and the flag with a marker last. */
export type FlagsOrder =
  | ({ readonly kind: 'hold' } & Size)
  | { readonly kind: 'change'; readonly count: number; readonly marker: string };

/** What it answers to an order, when it was done. */
export interface FlagsAnswer {
  readonly url: string;
}

const MARKER_KEY = 'marker';

let version = 1;
let held: { readonly key: string; readonly version: number }[] = [];

const upstream = await FakeUpstream.start();
const environment = upstream.environment(SDK_KEY);

/** A flag whose value is the marker, for everybody. */
function markerFlag(marker: string): { key: string; version: number } {
  const flag = {
    key: MARKER_KEY,
    version,
    on: false,
    offVariation: 0,
    variations: [marker],
    clientSideAvailability: { usingEnvironmentId: true, usingMobileKey: true },
    salt: '',
  };
  return flag;
}

process.on('message', (order: FlagsOrder) => {
  if (order.kind === 'hold') {
    const { flags, segments } = itemsOf(order);
    held = [...flags.values()] as typeof held;
    environment.set({ flags: [...held, markerFlag('marker-0')], segments: [...segments.values()] as typeof held });
  } else {
    version++;
    for (const flag of held.slice(0, order.count)) environment.patch('flags', { ...flag, version });
    environment.patch('flags', markerFlag(order.marker));
  }
  process.send?.({ url: upstream.url } satisfies FlagsAnswer);
});
process.on('disconnect', () => process.exit());
process.send?.({ url: upstream.url } satisfies FlagsAnswer);
