import { loadConfig, Relay } from 'headgate';

// The same as `headgate serve --config headgate.yaml`, inside of a program of your own.
process.chdir(import.meta.dirname);
const { config, problems } = await loadConfig({ file: 'headgate.yaml', fromEnv: false });
for (const { where, message } of problems) console.error(`${where}: ${message}`);
if (config === undefined) process.exit(1);

const { PORT = config.server.port } = process.env;
const relay = await Relay.start({ config: { ...config, server: { ...config.server, port: Number(PORT) } } });
await relay.loaded;
process.once('SIGTERM', () => void relay.stop());
console.log(JSON.stringify({ port: relay.port }));
