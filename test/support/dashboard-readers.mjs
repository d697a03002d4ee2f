/*
 * readers.mjs PORT PATH KEY COUNT STALLED: a herd on bare sockets. STALLED of COUNT clients read the beginning and then
 * nothing more; the others read everything, and keep their stream. Who is refused comes again after a second.
 *
 * It says what happens in lines of JSON: {"complete":…,"stalled":…,"refused":…}. It ends when its input does.
 */
import net from 'node:net';

const [port, path, key, count, stalled] = process.argv.slice(2);
const RETRY_MS = 1000;
const SAY_MS = 200;
/** A stalled reader stops once it has this much. */
const TASTE_BYTES = 32_768;
/** The others rest after each so many bytes: a herd is there for seconds, however fast the machine is. */
const BITE_BYTES = 262_144;
const REST_MS = 15;
/** So many connections are begun in one turn: more would wait in the kernel's queue. */
const AT_ONCE = 50;
const request = `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: ${key}\r\nuser-agent: GoClient/7.14.6\r\n\r\n`;
const said = { complete: 0, stalled: 0, refused: 0 };

function begin(isStalled) {
  const socket = net.connect({ host: '127.0.0.1', port: Number(port) }, () => socket.write(request));
  let bytes = 0;
  let isOver = false;
  socket.on('error', () => {});
  socket.on('data', (part) => {
    if (isOver) return;
    if (bytes === 0 && !part.subarray(0, 16).includes(' 200 ')) {
      isOver = true;
      said.refused++;
      socket.destroy();
      setTimeout(() => begin(isStalled), RETRY_MS);
      return;
    }
    bytes += part.length;
    if (isStalled && bytes >= TASTE_BYTES) {
      isOver = true;
      said.stalled++;
      socket.pause();
      return;
    }
    if (Math.floor(bytes / BITE_BYTES) > Math.floor((bytes - part.length) / BITE_BYTES)) {
      socket.pause();
      setTimeout(() => socket.resume(), REST_MS);
    }
    // the first event ends with an empty line, and is far larger than anything before it
    if (bytes <= TASTE_BYTES || !part.includes('\n\n')) return;
    isOver = true;
    said.complete++;
  });
}

let begun = 0;
(function next() {
  for (const until = Math.min(Number(count), begun + AT_ONCE); begun < until; begun++) {
    // spread evenly among the others
    begin(
      Math.floor(((begun + 1) * Number(stalled)) / Number(count)) >
        Math.floor((begun * Number(stalled)) / Number(count)),
    );
  }
  if (begun < Number(count)) setImmediate(next);
})();

let last = '';
setInterval(() => {
  const line = JSON.stringify(said);
  if (line !== last) process.stdout.write(`${line}\n`);
  last = line;
}, SAY_MS);
process.stdin.resume().on('end', () => process.exit(0));
