/**
 * How a client proves itself to a token endpoint.
 *
 * Guarantees that a key that cannot be used is refused when the provider is made, with an error that does not
 * quote it, and that secrets reach openid-client through its authentication function only, never as metadata
 * (`clientMetadata()` would hand them out). Never sends a secret to a server that only takes a key.
 */
import { createPrivateKey, type KeyObject, webcrypto } from 'node:crypto';
import { base64Of } from '../runtime/bytes.js';
import { needsPart } from '../runtime/needs-part.js';
import type { ServerMetadata } from './metadata.js';
import { Secret } from './secret.js';

/** A client's own secret or key, or neither (a public client). */
export type ClientAuthInput = {
  readonly clientSecret?: string | undefined;
  readonly privateKey?: string | object | undefined;
  readonly algorithm?: string | undefined;
  readonly keyId?: string | undefined;
  /** What was agreed on; undefined: by what the server's metadata list. */
  readonly method?: 'client_secret_basic' | 'client_secret_post' | undefined;
  readonly secretEncoding?: SecretEncoding | undefined;
};

/** How id and secret are written for `client_secret_basic`: form-encoded (RFC 6749, 2.3.1), or as they are, for servers that do not decode. */
export type SecretEncoding = 'form' | 'plain';

type OpenIdClient = typeof import('openid-client');
type ClientAuthentication = import('openid-client').ClientAuth;

export interface ClientAuthenticator {
  /** Values that must not come back in a server's text. */
  readonly secrets: readonly Secret[];
  forServer(openid: OpenIdClient, metadata: ServerMetadata): Promise<ClientAuthentication>;
}

/** Throws a `TypeError` naming the option. */
export function clientAuthenticator(input: ClientAuthInput): ClientAuthenticator {
  const { clientSecret, privateKey } = input;
  if (clientSecret !== undefined && privateKey !== undefined) {
    throw new TypeError('clientSecret and privateKey exclude each other');
  }
  if (privateKey !== undefined) return keyAuthenticator(privateKey, input.algorithm, input.keyId);
  if (input.algorithm !== undefined || input.keyId !== undefined) {
    throw new TypeError('algorithm and keyId need a privateKey');
  }
  if (clientSecret === undefined) {
    return { secrets: [], forServer: async (openid) => openid.None() };
  }
  if (typeof clientSecret !== 'string' || clientSecret === '') {
    throw new TypeError('clientSecret must be a string that is not empty');
  }
  const { method, secretEncoding = 'form' } = input;
  if (secretEncoding !== 'form' && secretEncoding !== 'plain') {
    throw new TypeError("secretEncoding must be 'form' or 'plain'");
  }
  const secret = new Secret(clientSecret);
  return {
    secrets: [secret],
    async forServer(openid, { authMethods }) {
      const listsPostOnly =
        authMethods?.includes('client_secret_post') === true && !authMethods.includes('client_secret_basic');
      const post = method === undefined ? listsPostOnly : method === 'client_secret_post';
      return post ? openid.ClientSecretPost(secret.reveal()) : basic(secret, secretEncoding);
    },
  };
}

/**
 * RFC 6749, 2.3.1. Spelled with encodeURIComponent: the full form encoding also turns `-` and `_` into
 * percent escapes, which servers that compare without decoding refuse.
 */
function basic(secret: Secret, encoding: SecretEncoding): ClientAuthentication {
  const encoded = encoding === 'plain' ? (text: string) => text : encodeURIComponent;
  return (_server, client, _body, headers) => {
    const pair = `${encoded(client.client_id)}:${encoded(secret.reveal())}`;
    headers.set('authorization', `Basic ${base64Of(pair)}`);
  };
}

function keyAuthenticator(
  given: string | object,
  algorithm: string | undefined,
  keyId: string | undefined,
): ClientAuthenticator {
  const load =
    typeof given === 'string' ? loaderOfPem(given, algorithm) : loaderOfCryptoKey(given, algorithm);
  let key: Promise<webcrypto.CryptoKey> | undefined;
  return {
    secrets: [],
    async forServer(openid) {
      key ??= load();
      return openid.PrivateKeyJwt(
        { key: await key, ...(keyId === undefined ? {} : { kid: keyId }) },
        {
          [openid.modifyAssertion](header) {
            // Servers older than RFC 9864 know Ed25519 by the name EdDSA only.
            if (algorithm === 'EdDSA') header.alg = 'EdDSA';
          },
        },
      );
    },
  };
}

interface KeyAlgorithm {
  readonly name: string;
  readonly hash?: string;
  readonly namedCurve?: string;
}

const ALGORITHMS: Readonly<Record<string, KeyAlgorithm>> = Object.freeze({
  RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  RS384: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-384' },
  RS512: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-512' },
  PS256: { name: 'RSA-PSS', hash: 'SHA-256' },
  PS384: { name: 'RSA-PSS', hash: 'SHA-384' },
  PS512: { name: 'RSA-PSS', hash: 'SHA-512' },
  ES256: { name: 'ECDSA', namedCurve: 'P-256' },
  ES384: { name: 'ECDSA', namedCurve: 'P-384' },
  ES512: { name: 'ECDSA', namedCurve: 'P-521' },
  EdDSA: { name: 'Ed25519' },
  Ed25519: { name: 'Ed25519' },
});

const CURVE_ALGORITHMS: Readonly<Record<string, string>> = Object.freeze({
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
});

function loaderOfPem(pem: string, algorithm: string | undefined): () => Promise<webcrypto.CryptoKey> {
  needsPart(
    'ERR_CREDENTIAL_SOURCE',
    'A privateKey in PEM form',
    'node:crypto',
    createPrivateKey,
    'give a CryptoKey',
  );
  let object: KeyObject;
  try {
    object = createPrivateKey(pem);
  } catch {
    throw new TypeError('privateKey must be a private key in PEM form without a pass phrase');
  }
  const name = algorithm ?? defaultAlgorithm(object);
  const parameters = name === undefined ? undefined : own(ALGORITHMS, name);
  if (parameters === undefined) {
    throw new TypeError(`algorithm must be one of ${Object.keys(ALGORITHMS).join(', ')}`);
  }
  if (!fits(object, parameters)) throw new TypeError('algorithm does not fit the privateKey');
  return async () =>
    await webcrypto.subtle.importKey(
      'pkcs8',
      object.export({ type: 'pkcs8', format: 'der' }),
      parameters as webcrypto.AlgorithmIdentifier,
      false,
      ['sign'],
    );
}

function loaderOfCryptoKey(given: object, algorithm: string | undefined): () => Promise<webcrypto.CryptoKey> {
  // By shape, not by instanceof: under some test runners it is of another realm.
  const key = given as { type?: unknown; usages?: unknown; algorithm?: { name?: unknown } };
  const isSigningKey =
    key.type === 'private' && Array.isArray(key.usages) && (key.usages as unknown[]).includes('sign');
  if (!isSigningKey) throw new TypeError("privateKey must be a PEM string or a private CryptoKey for 'sign'");
  if (algorithm !== undefined && own(ALGORITHMS, algorithm)?.name !== key.algorithm?.name) {
    throw new TypeError('algorithm does not fit the privateKey');
  }
  return async () => given as webcrypto.CryptoKey;
}

function defaultAlgorithm(key: KeyObject): string | undefined {
  switch (key.asymmetricKeyType) {
    case 'rsa':
      return 'RS256';
    case 'rsa-pss':
      return 'PS256';
    case 'ed25519':
      return 'Ed25519';
    case 'ec':
      return own(CURVE_ALGORITHMS, key.asymmetricKeyDetails?.namedCurve ?? '');
    default:
      return undefined;
  }
}

function fits(key: KeyObject, { name, namedCurve }: KeyAlgorithm): boolean {
  const type = key.asymmetricKeyType;
  if (name === 'Ed25519') return type === 'ed25519';
  if (name !== 'ECDSA') return type === 'rsa' || (type === 'rsa-pss' && name === 'RSA-PSS');
  const wanted = own(CURVE_ALGORITHMS, key.asymmetricKeyDetails?.namedCurve ?? '');
  return type === 'ec' && wanted !== undefined && ALGORITHMS[wanted]?.namedCurve === namedCurve;
}

function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
