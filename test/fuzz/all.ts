/**
 * All that is fuzzed.
 */
import { CREDENTIALS } from './credentials.js';
import { FILES } from './files.js';
import { HTTP } from './http.js';
import type { Fuzz } from './kit.js';
import { LIMIT_FIELDS } from './limits.js';
import { STREAMS } from './streams.js';

export const FUZZ: readonly Fuzz[] = [...STREAMS, ...HTTP, ...LIMIT_FIELDS, ...CREDENTIALS, ...FILES];
