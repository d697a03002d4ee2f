import type { Delivery, DeliveryProgress } from './delivery.ts';

/** A delivery has to be this old before its rate says something about its reader. */
const SETTLED_MS = 1000;

/**
 * The slowest of many deliveries, the slowest first; of two at one rate the older first. One pass, and of those that are not
 * among the slowest nothing is made.
 */
export function slowestOf(deliveries: Iterable<Delivery>, count: number, nowMs: number): DeliveryProgress[] {
  const slowest: Delivery[] = [];
  if (count < 1) return [];
  for (const delivery of deliveries) {
    if (delivery.about === undefined || nowMs - delivery.startedAtMs < SETTLED_MS) continue;
    const last = slowest.at(-1);
    const isFull = slowest.length >= count;
    if (isFull && last !== undefined && !isSlower(delivery, last, nowMs)) continue;
    if (isFull) slowest.pop();
    const at = slowest.findIndex((other) => isSlower(delivery, other, nowMs));
    slowest.splice(at < 0 ? slowest.length : at, 0, delivery);
  }
  return slowest.flatMap((delivery) => progressOf(delivery, nowMs));
}

function isSlower(one: Delivery, other: Delivery, nowMs: number): boolean {
  const difference = rateOf(one, nowMs) - rateOf(other, nowMs);
  return difference === 0 ? one.startedAtMs < other.startedAtMs : difference < 0;
}

function rateOf({ bytes, startedAtMs }: Delivery, nowMs: number): number {
  return (1000 * bytes) / (nowMs - startedAtMs);
}

function progressOf(delivery: Delivery, nowMs: number): DeliveryProgress | [] {
  const about = delivery.about?.();
  if (about === undefined) return [];
  return {
    ...about,
    bytes: delivery.bytes,
    totalBytes: delivery.source?.bytes ?? null,
    ageMs: nowMs - delivery.startedAtMs,
    bytesPerSecond: rateOf(delivery, nowMs),
    parked: delivery.parkedAtMs !== undefined,
  };
}
