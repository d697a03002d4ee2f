export { type Admin, type AdminOptions, openAdmin } from './admin.ts';
export { pageRoutes } from './admin-page.ts';
export { type Health, healthRoutes, type StatusPath } from './health.ts';
export type { ListenerOptions } from './listener.ts';
export { type RequestFact, requested } from './requests.ts';
export type { Route } from './route.ts';
export { Server, type ServerOptions } from './server.ts';
export { type TlsFiles, watchTls } from './tls-files.ts';
export type { ClientVerification, TlsMaterial } from './tls-material.ts';
