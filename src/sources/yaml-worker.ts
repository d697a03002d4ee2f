import { parentPort, workerData } from 'node:worker_threads';
import { convertYaml } from './yaml-convert.ts';

parentPort?.postMessage(convertYaml(workerData as Uint8Array));
