// sum.mjs FAILED_STEPS REPORT...: adds up vitest's JSON reports and prints the line that CI ends with.
// Exits with 1 when a test or step failed, when a run left no readable report, or when no test ran at all.
import { readFileSync } from 'node:fs';

const [failedSteps, ...paths] = process.argv.slice(2);
const sum = { passed: 0, failed: 0, skipped: 0 };
const say = (line) => process.stdout.write(`${line}\n`);

/** Adds a report to the sum; answers what failed in it. */
function add(path) {
  const report = JSON.parse(readFileSync(path, 'utf8'));
  if (!Number.isInteger(report.numTotalTests)) return [`${path} has no number of tests`];
  sum.passed += report.numPassedTests;
  sum.skipped += report.numPendingTests + (report.numTodoTests ?? 0);
  const failed = report.testResults.flatMap(failuresOf);
  return failed.length === 0 && !report.success ? [`${path} is of a run that failed`] : failed;
}

/** A file that could not be loaded has no test that could have failed: it counts itself. */
function failuresOf({ name, status, message, assertionResults }) {
  const failed = assertionResults.filter((test) => test.status === 'failed').map((test) => test.fullName);
  return status === 'failed' && failed.length === 0 ? [`${name} (${message})`] : failed;
}

for (const path of paths) {
  let failed;
  try {
    failed = add(path);
  } catch (error) {
    failed = [`${path} cannot be read: ${error.message}`];
  }
  for (const name of failed) say(`failed: ${name}`);
  sum.failed += failed.length;
}

say(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
process.exitCode = Number(failedSteps) > 0 || sum.failed > 0 || sum.passed === 0 ? 1 : 0;
