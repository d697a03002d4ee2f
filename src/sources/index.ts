export { type ArchiveOptions, openArchive } from './archive.ts';
export { type FilesOptions, openFiles } from './sdk-file.ts';
export type { SourceEnvironment, Source, SourceListener } from './source.ts';
export type { ArchiveLimits } from './tar.ts';
