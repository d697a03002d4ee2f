// sum.mjs FAILED_STEPS REPORT...: adds up vitest's JSON reports and prints the line that CI ends with.
// Exits with 1 when a test or step failed, when a run left no readable report, or when no test ran at all.
import { readFileSync } from 'node:fs';

const [failedSteps, ...paths] = process.argv.slice(2);
const sum = { passed: 0, failed: 0, skipped: 0 };
let broken = Number(failedSteps) > 0;
const say = (line) => process.stdout.write(`${line}\n`);

for (const path of paths) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'));
    if (!Number.isInteger(report.numTotalTests)) throw new Error('it has no number of tests');
    sum.passed += report.numPassedTests;
    sum.failed += report.numFailedTests;
    sum.skipped += report.numPendingTests + (report.numTodoTests ?? 0);
    for (const file of report.testResults) {
      for (const test of file.assertionResults) if (test.status === 'failed') say(`failed: ${test.fullName}`);
      // a file that could not be loaded has no test that could have failed
      if (file.status === 'failed' && file.assertionResults.length === 0) {
        say(`failed: ${file.name} (${file.message})`);
        sum.failed++;
      }
    }
    if (!report.success) broken = true;
  } catch (error) {
    say(`failed: ${path} cannot be read: ${error.message}`);
    sum.failed++;
  }
}

say(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
process.exit(broken || sum.failed > 0 || sum.passed === 0 ? 1 : 0);
