import { parentPort, workerData } from 'node:worker_threads';
import { convertYaml } from './yaml-convert.ts';

// The thread that converts one YAML file; `yaml.ts` starts it.
const result = convertYaml(workerData as Uint8Array);
parentPort?.postMessage(result, result.ok ? [result.json.buffer] : []);
