import { axis, escapeHtml, type Plot, plotSvg, summed } from './plots.ts';
import type { HerdReport } from './report.ts';
import { type Section, sectionsOf, verdictOf } from './sections.ts';

/** Colours are told apart by people who do not see red and green apart, on both grounds. */
const STYLE = `
:root { color-scheme: light dark; --ground: #fff; --ink: #1c2024; --faint: #60646c; --rule: #d9dbe0; --a: #0b68cb; --b: #b25e00; --good: #18794e; --bad: #c62a2f; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181b; --ink: #edeef0; --faint: #a5aab2; --rule: #363a40; --a: #70b8ff; --b: #ffa057; --good: #3dd68c; --bad: #ff9592; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1rem; margin: 0 0 .4rem; }
.verdict { font-weight: 600; border-left: 4px solid; padding-left: .6rem; margin: 1rem 0 1.5rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.faint { color: var(--faint); }
.plots { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.tables { columns: 26rem; column-gap: 1.5rem; margin-top: 1.5rem; }
section { overflow-x: auto; break-inside: avoid; padding-bottom: 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; font-weight: 400; }
tbody th { color: var(--faint); white-space: nowrap; }
td { overflow-wrap: anywhere; }
.numbers th { padding-right: 0; }
.numbers td, .numbers thead th { text-align: right; padding-right: 0; padding-left: .6rem; white-space: nowrap; }
.numbers td.across { text-align: left; white-space: normal; }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; text-anchor: middle; }
svg text.up, svg text.end { text-anchor: end; } svg text.start { text-anchor: start; }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.a { stroke: var(--a); } .line.b { stroke: var(--b); stroke-dasharray: 5 3; }
.bar.a { fill: var(--a); } .bar.b { fill: var(--b); }
.key { display: inline-block; margin-right: 1rem; font-weight: 400; color: var(--faint); }
.key i { display: inline-block; width: 1.2rem; border-top: 3px solid; margin-right: .35rem; vertical-align: middle; }
.key i.a { border-color: var(--a); } .key i.b { border-color: var(--b); border-top-style: dashed; }
@media print { body { max-width: none; } }
`;

/**
 * A report as one HTML page with plots: no script, and nothing that has to be fetched.
 *
 * @example
 * import { createServer } from 'node:http';
 * const server = createServer((_, response) => response.end('{}'));
 * await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
 * const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
 * const herd = herdOptions(url, { parts: [{ kind: 'fdv1-poll', weight: 1 }], keys: ['sdk-1'], clients: 3 });
 * const page = reportPage(await runHerd(herd, { version: '1.0.0' }));
 * console.log(page.slice(0, 15), page.includes('<script')); // <!doctype html> false
 * server.close();
 */
export function reportPage(report: HerdReport): string {
  const { target, startedAt, ok, roles } = report;
  const verdict = roles.steady.clients === 0 ? 'faint' : ok ? 'good' : 'bad';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>${escapeHtml(`Herd at ${target}`)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(`Herd at ${target}`)}</h1>
<div class="faint">${escapeHtml(startedAt)}</div>
<p class="verdict ${verdict}">${escapeHtml(verdictOf(report))}</p>
<main>
<div class="plots">
${plotsOf(report).map(figureOf).join('\n')}
</div>
<div class="tables">
${sectionsOf(report).map(sectionHtml).join('\n')}
</div>
</main>
</body>
</html>
`;
}

function plotsOf({ timeline, curves, seconds }: HerdReport): readonly Plot[] {
  const overTime = (share: number): string => axis.seconds(seconds * share);
  const perSecond = 1000 / timeline.everyMs;
  return [
    {
      title: 'Clients',
      kind: 'lines',
      across: overTime,
      up: axis.count,
      series: [
        { name: 'have a full copy', style: 'a', values: summed(timeline.whole) },
        { name: 'arrived', style: 'b', values: summed(timeline.arrived) },
      ],
    },
    {
      title: 'Received',
      kind: 'lines',
      across: overTime,
      up: axis.bytesPerSecond,
      series: [{ name: 'by all clients', style: 'a', values: timeline.bytes.map((bytes) => bytes * perSecond) }],
    },
    {
      title: 'Refused and failed',
      kind: 'bars',
      across: overTime,
      up: axis.count,
      series: [
        { name: 'refused', style: 'a', values: timeline.refused },
        { name: 'cut, given up, not answered', style: 'b', values: timeline.cut },
      ],
    },
    {
      title: 'Time from arrival, by percentile of steady clients',
      kind: 'lines',
      across: (share) => `p${Math.round(share * 100)}`,
      up: axis.seconds,
      series: [
        { name: 'to the full copy', style: 'a', values: curves.wholeSeconds },
        { name: 'to the first byte', style: 'b', values: curves.firstByteSeconds },
      ],
    },
  ];
}

function figureOf(plot: Plot): string {
  const keys = plot.series.map(
    ({ name, style }) => `<span class="key"><i class="${style}"></i>${escapeHtml(name)}</span>`,
  );
  return `<figure><figcaption>${escapeHtml(plot.title)} ${keys.join('')}</figcaption>${plotSvg(plot)}</figure>`;
}

function sectionHtml({ title, columns, rows }: Section): string {
  const isTable = columns.length > 0;
  const head = isTable
    ? `<thead><tr>${columns.map((column) => `<th scope="col">${escapeHtml(column)}</th>`).join('')}</tr></thead>`
    : '';
  const body = rows.map(([first = '', ...cells]) => {
    if (cells.length === 0) return `<tr><td class="across" colspan="${columns.length}">${escapeHtml(first)}</td></tr>`;
    // a count stays beside its name
    const rest = cells.map((cell) => `<td>${escapeHtml(cell.replaceAll(' × ', '\u00a0×\u00a0'))}</td>`).join('');
    return `<tr><th scope="row">${escapeHtml(first)}</th>${rest}</tr>`;
  });
  return `<section><h2>${escapeHtml(title)}</h2><table${isTable ? ' class="numbers"' : ''}>${head}<tbody>${body.join('')}</tbody></table></section>`;
}
