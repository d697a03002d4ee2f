import { setTimeout as delay } from 'node:timers/promises';

// The least that a bouncer is: everything once, then what changed since.
const url = process.argv[2] ?? 'http://127.0.0.1:8080';
const headers = { 'x-api-key': 'key-of-the-example', 'user-agent': 'example-bouncer/v1.0.0' };
const banned = new Map();

async function pull(startup) {
  const response = await fetch(`${url}/v1/decisions/stream?startup=${startup}`, { headers });
  if (response.status === 503) await delay(1000 * Number(response.headers.get('retry-after')));
  if (response.status !== 200) throw new Error(`Cannot pull: got ${response.status}`);
  return response.json();
}

for (let startup = true; ; await delay(500)) {
  try {
    const { new: added, deleted } = await pull(startup);
    for (const { id } of deleted ?? []) banned.delete(id);
    for (const { id, value, type } of added ?? []) banned.set(id, `${type} ${value}`);
    if (startup || added?.length > 0 || deleted?.length > 0) console.log(JSON.stringify([...banned.values()]));
    startup = false;
  } catch (error) {
    // what is banned stays banned, and what changes meanwhile comes with the next pull that succeeds
    console.error(error.message);
  }
}
