// The stages of a number (RFC 8259 section 6), each named after the byte that was read last; 0 is none of them.
//
//   ──┬─────┬─┬─ 0 ──────────┬─┬───────────────┬─┬───────────────────────┬──►
//     └─ - ─┘ └─ 1-9 digit* ─┘ └─ . ─ digit+ ──┘ └─ e ─┬─────┬─ digit+ ──┘
//                                                      └ + - ┘
const SIGNED = 1;
const ZERO = 2;
const INTEGER = 3;
const POINT = 4;
const FRACTION = 5;
const EXPONENT = 6;
const EXPONENT_SIGN = 7;
const EXPONENT_DIGITS = 8;
/** Whether a number may end at a stage. */
export const NUMBER_MAY_END: readonly boolean[] = [false, false, true, true, false, true, false, false, true];

const MINUS = 0x2d;

/** The stage after the first byte of a number, which is a minus or a digit. */
export function numberBegins(byte: number): number {
  return byte === MINUS ? SIGNED : afterDigit(SIGNED, byte);
}

/** The stage after one more byte; 0 when the byte does not belong to the number. */
export function nextInNumber(stage: number, byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return afterDigit(stage, byte);
  if (byte === 0x2e) return stage === ZERO || stage === INTEGER ? POINT : 0;
  if (byte === 0x65 || byte === 0x45) return stage === ZERO || stage === INTEGER || stage === FRACTION ? EXPONENT : 0;
  if (byte === 0x2b || byte === MINUS) return stage === EXPONENT ? EXPONENT_SIGN : 0;
  return 0;
}

function afterDigit(stage: number, byte: number): number {
  switch (stage) {
    case SIGNED:
      return byte === 0x30 ? ZERO : INTEGER;
    case ZERO:
      return 0;
    case INTEGER:
      return INTEGER;
    case POINT:
    case FRACTION:
      return FRACTION;
    default:
      return EXPONENT_DIGITS;
  }
}
