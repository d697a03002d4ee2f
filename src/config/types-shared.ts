/** How much is logged: this level and everything above it. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'none';

/** How Headgate presents itself to an upstream over TLS, and what it accepts from it. */
export interface UpstreamTlsConfig {
  /** Certificates to trust instead of the system's own, as the path of a PEM file. */
  readonly caPath?: string;
  /** The client certificate and its key, as paths of PEM files; both or neither. */
  readonly certPath?: string;
  readonly keyPath?: string;
  /** The name that the upstream's certificate must carry; absent: that of the URL. */
  readonly serverName?: string;
  /** False accepts any certificate. */
  readonly verify: boolean;
}
