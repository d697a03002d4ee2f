import { basicLogger, init } from '@launchdarkly/node-server-sdk';

// A real SDK: only its URLs differ from those of the vendor's service.
const url = process.argv[2] ?? 'http://127.0.0.1:8030';
const client = init('sdk-example', {
  baseUri: url,
  streamUri: url,
  eventsUri: url,
  sendEvents: false,
  diagnosticOptOut: true,
  logger: basicLogger({ level: 'warn', destination: console.error }),
});
const context = { kind: 'user', key: 'ada' };
const tell = async () => {
  console.log(JSON.stringify({ 'new-checkout': await client.variation('new-checkout', context, undefined) }));
};
await client.waitForInitialization({ timeout: 10 });
await tell();
client.on('update', () => void tell());
process.once('SIGTERM', () => client.close());
