/**
 * The shapes of a contract: what a server told about itself, and how two such tellings differ.
 *
 * Guarantees that every difference has a kind, a level and a path. Never holds a secret: no token, no
 * session id, no query of an address.
 */

/** What JSON can hold, kept whole: unknown keys are part of the contract. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** One tool of a contract. */
export interface ToolContract {
  readonly name: string;
  /** SHA-256 (hex) of the canonical JSON of `definition`; equal exactly when the definitions are. */
  readonly digest: string;
  /** The tool as the server listed it, with every key. */
  readonly definition: JsonObject;
}

/**
 * What a server told about itself at one moment. Made by `makeSnapshot` or `parseSnapshot`, which see to it
 * that lists are ordered and digests right; a snapshot put together by hand has to do so itself.
 */
export interface ContractSnapshot {
  /** Number of the format. */
  readonly holdfast: 1;
  /** ISO 8601. When, where and under which name it was taken is not part of the contract and never compared. */
  readonly takenAt: string;
  readonly environment?: string | undefined;
  /** Without user, query and fragment, where secrets may stand. */
  readonly url?: string | undefined;
  /** Of the contract as a whole; the order in which a server lists things does not matter. */
  readonly digest: string;
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly serverInfo: JsonObject;
  readonly instructions?: string | undefined;
  /** By name. */
  readonly tools: readonly ToolContract[];
  /** Where they were asked for; by URI. */
  readonly resources?: readonly JsonObject[] | undefined;
  /** Where they were asked for; by name. */
  readonly prompts?: readonly JsonObject[] | undefined;
  /** The scopes under which the lists were read: a server may show other tools to a wider credential. */
  readonly grantedScopes?: readonly string[] | undefined;
}

/**
 * `breaking`: calls or readers that worked may fail. `behaviour`: nothing fails, but a model acts
 * differently. `cosmetic`: neither.
 */
export type ContractLevel = 'breaking' | 'behaviour' | 'cosmetic';

/** How a schema differs at one place. Which level that is depends on the side: see `levelOfSchemaChange`. */
export type SchemaChangeHow =
  /** A property that was not described before. */
  | 'property-added'
  | 'property-removed'
  /** A property has become required; where another has ceased to be, it is `incompatible`. */
  | 'required-added'
  | 'required-removed'
  /** Fewer values are valid than before. */
  | 'narrowed'
  /** More values are valid than before. */
  | 'widened'
  /** Some values are no longer valid and others have become so. */
  | 'incompatible'
  /** The same values are valid; words, defaults or examples, which a model reads, are others. */
  | 'annotation'
  /** Another spelling or order of the same rule. */
  | 'spelling'
  /** A keyword this library does not reason about: counts as breaking. */
  | 'cannot-tell';

export type ContractChangeKind =
  /** A tool that was not there before (`behaviour`: a model may choose it). */
  | 'tool-added'
  /** `breaking`. */
  | 'tool-removed'
  /** One is gone and a nearly identical one has come (`breaking`); `from` and `to` are the names. */
  | 'tool-renamed'
  /** A name is listed more than once, so nobody can say which definition runs (`breaking`); `from` and `to` are lists. */
  | 'tool-duplicated'
  /** `behaviour`: an accident or an attack (tool poisoning). */
  | 'description-changed'
  /** `cosmetic`. */
  | 'title-changed'
  /** `behaviour`: hints such as `readOnlyHint`, on which approvals rest. */
  | 'annotations-changed'
  /** What the caller writes; `how` says in which way. */
  | 'input-schema-changed'
  /** What the caller reads; `how` says in which way, and the levels are the mirror image. */
  | 'output-schema-changed'
  /** Any other field of a tool: `icons` cosmetic, `_meta` behaviour, the rest (cannot tell) breaking. */
  | 'tool-field-changed'
  /** `behaviour`: it may change what reaches the model's context. */
  | 'capability-added'
  /** `breaking`; `true` that became `false` counts as removed. */
  | 'capability-removed'
  /** A capability with another value: cannot tell, `breaking`. */
  | 'capability-changed'
  /** `behaviour`. */
  | 'instructions-changed'
  /** `behaviour`: both sides agreed on it, so calls go on; what the server sends may differ. Never ordered. */
  | 'protocol-version-changed'
  /** `cosmetic`: versions are shown, never ordered. */
  | 'server-info-changed'
  /** `behaviour`. */
  | 'resource-added'
  /** `breaking`. */
  | 'resource-removed'
  /** By field: `title`, `icons` cosmetic; what a model reads behaviour; the rest breaking. */
  | 'resource-changed'
  | 'resource-duplicated'
  /** `behaviour`. */
  | 'prompt-added'
  /** `breaking`. */
  | 'prompt-removed'
  /** By field, as for resources; an argument that is gone or has become required is breaking. */
  | 'prompt-changed'
  | 'prompt-duplicated'
  /** A scope less is `breaking`, otherwise `behaviour`. */
  | 'scopes-changed'
  /** A list that only one of the two snapshots has, because it was not asked for (`cosmetic`): not compared. */
  | 'part-not-compared';

/** One difference. Setting `path` to `to` (or removing it) in the first contract, for each change, gives the second. */
export interface ContractChange {
  readonly kind: ContractChangeKind;
  /** The tool, prompt or resource, else the part of the contract. Server text: escape it before showing it. */
  readonly name: string;
  readonly level: ContractLevel;
  /** For instance `['tools', 'search', 'inputSchema', 'properties', 'q', 'type']`. */
  readonly path: readonly string[];
  /** The value at `path` before; missing if there was none. */
  readonly from?: unknown;
  /** The value at `path` after; missing if there is none. */
  readonly to?: unknown;
  /** Of schemas only. */
  readonly how?: SchemaChangeHow | undefined;
  /** The texts differ only in characters that are not shown, such as zero-width, bidi and tag characters. Never cosmetic. */
  readonly onlyInvisible?: true | undefined;
}

/** A change that was found and, by the caller's choice, does not count. */
export interface LeftOutChange {
  /** The path of `ignore` that covers it, or `'tools'` for a tool that is not among those named. */
  readonly by: string;
  readonly change: ContractChange;
}

/** Where one side of a comparison comes from. */
export interface ContractSide {
  readonly takenAt: string;
  readonly environment?: string | undefined;
  readonly url?: string | undefined;
  readonly digest: string;
}

export interface ContractDiff {
  /** Nothing differs, not even what was left out. */
  readonly identical: boolean;
  /** The gravest among `changes`; missing when there are none. */
  readonly level?: ContractLevel | undefined;
  /** Gravest first, then by part and name. */
  readonly changes: readonly ContractChange[];
  readonly leftOut: readonly LeftOutChange[];
  readonly from: ContractSide;
  readonly to: ContractSide;
}

export interface DiffOptions {
  /**
   * Paths that do not count, with all below them: `'tools.*.title'`, `'serverInfo'`. `*` stands for any one
   * step; a dot or star within a name is written `\.` or `\*`. What they cover is reported in `leftOut`.
   */
  readonly ignore?: readonly string[] | undefined;
  /** The tools that count; changes of others are in `leftOut`. All by default. */
  readonly tools?: readonly string[] | undefined;
}
