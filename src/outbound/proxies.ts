import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';
import { HttpProxyAgent } from 'http-proxy-agent';
import { HttpsProxyAgent } from 'https-proxy-agent';

type TunnelOptions = Parameters<HttpsProxyAgent<string>['connect']>[1];
type ProxiedRequest = Parameters<HttpProxyAgent<string>['connect']>[0];
type ProxiedOptions = Parameters<HttpProxyAgent<string>['connect']>[1];

// A proxy that takes a connection and then says nothing would keep it, and what waits for it, for ever: nobody else has the socket. So
// it gets a signal of the request's own, which is read before the first await of `connect`.

/**
 * Connections through a proxy to https addresses. A proxy that does not make one is a connection that fails: what it says, and with
 * which status, is not the answer of whom we asked for (RFC 9110 section 9.3.6), and a 403 of it is nothing about a key.
 */
export class Tunnels extends HttpsProxyAgent<string> {
  override async connect(request: ClientRequest, options: TunnelOptions): Promise<Socket> {
    this.connectOpts = { ...this.connectOpts, ...signalOf(options) };
    let status: number | undefined;
    request.once('proxyConnect', (answer: { readonly statusCode: number }) => {
      status = answer.statusCode;
    });
    const socket = await super.connect(request, options);
    if (status === 200) return socket;
    socket.destroy();
    throw new Error(`its proxy must make a tunnel with status 200, got ${status}`);
  }
}

/** Connections to a proxy that asks http addresses for us. */
export class Proxied extends HttpProxyAgent<string> {
  override connect(request: ProxiedRequest, options: ProxiedOptions): Promise<Socket> {
    this.connectOpts = { ...this.connectOpts, ...signalOf(options) };
    return super.connect(request, options);
  }
}

/** Node keeps a request's own `signal` from its agent. */
function signalOf(options: object): { readonly signal?: AbortSignal } {
  return 'stopSignal' in options && options.stopSignal instanceof AbortSignal ? { signal: options.stopSignal } : {};
}
