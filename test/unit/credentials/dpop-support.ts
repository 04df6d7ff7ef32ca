/** A token endpoint that looks at proofs with jose, as a server would, and answers as it is told. */
import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  calculateJwkThumbprint,
  EmbeddedJWK,
  generateKeyPair,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import type { Clock } from '../../../src/clock.js';
import type { Reply } from './support.js';

export interface Asked {
  readonly form: URLSearchParams;
  /** Undefined where there was no proof. */
  readonly proof: string | undefined;
  readonly claims: JWTPayload & Record<string, unknown>;
  /** Thumbprint of the key that made the proof. */
  readonly jkt: string | undefined;
}

type Judge = (asked: Asked) => Reply | undefined | Promise<Reply | undefined>;

export class ProvingTokenServer {
  readonly asked: Asked[] = [];
  /** What to say; undefined: a token. */
  judge: Judge = () => undefined;
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #signing = generateKeyPair('ES256');

  private constructor(clock: Clock) {
    this.#clock = clock;
    this.#server = createServer(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      const proof = request.headers.dpop as string | undefined;
      const read = proof === undefined ? { claims: {}, jkt: undefined } : await this.#read(proof);
      const asked = { form: new URLSearchParams(text), proof, ...read };
      this.asked.push(asked);
      const reply = (await this.judge(asked)) ?? { body: await this.token(asked) };
      response.writeHead(reply.status ?? 200, {
        'content-type': 'application/json',
        date: new Date(this.#clock.now()).toUTCString(),
        ...reply.headers,
      });
      response.end(typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body ?? {}));
    });
  }

  static async start(clock: Clock): Promise<ProvingTokenServer> {
    const server = new ProvingTokenServer(clock);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get tokenEndpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/token`;
  }

  /** A JWT that names the key it is bound to (RFC 9449, 6.1). */
  async token({ jkt }: Asked, more: object = {}): Promise<object> {
    const { privateKey } = await this.#signing;
    const access_token = await new SignJWT({ cnf: { jkt } })
      .setProtectedHeader({ alg: 'ES256' })
      .sign(privateKey);
    return { access_token, token_type: 'DPoP', expires_in: 60, ...more };
  }

  async #read(proof: string): Promise<Pick<Asked, 'claims' | 'jkt'>> {
    const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, {
      typ: 'dpop+jwt',
      algorithms: ['ES256'],
      currentDate: new Date(this.#clock.now()),
    });
    return { claims: payload, jkt: await calculateJwkThumbprint(protectedHeader.jwk ?? {}) };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Wants a nonce of its own in each proof: the first one comes with a refusal. */
export function wantsNonce(nonce: () => string): Judge {
  return ({ claims }) =>
    claims.nonce === nonce()
      ? undefined
      : { status: 400, headers: { 'dpop-nonce': nonce() }, body: { error: 'use_dpop_nonce' } };
}

/** Refuses proofs dated more than `toleranceMs` from its clock. */
export function watchesDate(clock: Clock, toleranceMs: number): Judge {
  return ({ claims }) =>
    Math.abs(Number(claims.iat) * 1000 - clock.now()) > toleranceMs
      ? { status: 400, body: { error: 'invalid_dpop_proof' } }
      : undefined;
}

export function rsaPem(): string {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
