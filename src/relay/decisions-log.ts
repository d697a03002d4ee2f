import type { Log } from '../observability/index.ts';
import type { DecisionFilesListener, LapiListener, LapiReport } from '../sources/index.ts';
import type { DecisionKeeper } from '../stores/index.ts';

/** What a local API tells of itself, as lines of the log. */
export function lapiListener(log: Log, source: string): LapiListener {
  return {
    loaded: (report) => tell(log, source, report, 'decisions loaded'),
    resynced: (report) => tell(log, source, report, 'decisions compared with the local API'),
    failed: ({ code, message }, { retryMs }) =>
      log.error({ source, code, retryMs: Math.round(retryMs) }, `${message}; what was loaded before stays served`),
    recovered: ({ downMs }) => log.info({ source, downMs: Math.round(downMs) }, 'local API answers again'),
    doubtful: ({ held, got, retryMs }) =>
      log.warn(
        { source, held, got, retryMs: Math.round(retryMs) },
        'local API tells far fewer decisions than before: asked again before it is believed',
      ),
  };
}

/** Decisions that cannot be served (no value, or far too long) are missing from what bouncers enforce: that is a warning. */
function tell(log: Log, source: string, report: LapiReport, message: string): void {
  const fields = { source, ...report, ms: Math.round(report.ms) };
  if (report.unusable > 0) log.warn(fields, `${message}; some cannot be used and were left out`);
  else log.info(fields, message);
}

/** What the store had, as a line of the log. */
export function restoredLine(restored: NonNullable<DecisionKeeper['restored']>): [object, string] {
  const { rows, offset, savedAtMs } = restored;
  const ageSeconds = Math.round((Date.now() - savedAtMs) / 1000);
  return [
    { decisions: rows, offset, ageSeconds },
    'decisions of the last run served until the sources have told theirs',
  ];
}

/** What files of decisions tell of themselves, as lines of the log. */
export function filesListener(log: Log, source: string): DecisionFilesListener {
  return {
    loaded: (report) => log.info({ source, ...report, ms: Math.round(report.ms) }, 'decisions loaded'),
    failed: ({ code, message }) => log.error({ source, code }, `${message}; what was loaded before stays served`),
  };
}
