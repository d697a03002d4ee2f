export { healthRoutes } from './health.ts';
export type { ListenerOptions, TlsMaterial } from './listener.ts';
export type { Route } from './routes.ts';
export { Server, type ServerOptions } from './server.ts';
export { watchTls } from './tls-files.ts';
