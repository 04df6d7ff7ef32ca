/**
 * No credential: what a server is asked with before it has said which one it wants.
 *
 * Guarantees generation 0, which no token has. Carries nothing.
 */
import type { Credential } from '../provider.js';

export const ANONYMOUS: Credential = Object.freeze({ generation: 0, headers: () => ({}) });
