import type { HerdReport } from './report.ts';
import { type Section, sectionsOf, verdictOf } from './sections.ts';

/**
 * A report as text, in tables.
 *
 * @example
 * import { createServer } from 'node:http';
 * const server = createServer((_, response) => response.end('{}'));
 * await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
 * const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
 * const herd = herdOptions(url, { parts: [{ kind: 'fdv1-poll', weight: 1 }], keys: ['sdk-1'], clients: 3 });
 * const text = reportText(await runHerd(herd, { version: '1.0.0' }));
 * console.log(text.split('\n', 1)[0]); // All 3 steady clients had a full copy within 60.0 s.
 * server.close();
 */
export function reportText(report: HerdReport): string {
  const sections = sectionsOf(report).map(sectionText);
  return `${verdictOf(report)}\n\n${sections.join('\n')}`;
}

function sectionText({ title, columns, rows }: Section): string {
  const lines = columns.length === 0 ? rows : [columns, ...rows];
  const widths = lines.reduce<number[]>((widest, line) => {
    // a line of one cell stands across the columns
    if (line.length === 1) return widest;
    for (const [at, cell] of line.entries()) widest[at] = Math.max(widest[at] ?? 0, cell.length);
    return widest;
  }, []);
  const isTable = columns.length > 0;
  const text = lines.map((line) => {
    const cells = line.map((cell, at) => {
      const width = line.length === 1 ? 0 : (widths[at] ?? 0);
      return isTable && at > 0 ? cell.padStart(width) : cell.padEnd(width);
    });
    return `  ${cells.join('  ').trimEnd()}\n`;
  });
  return `${title}\n${text.join('')}`;
}
