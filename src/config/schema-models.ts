/**
 * The part of the schema for providers and models: which models exist, which providers serve them, and what they
 * cost.
 */

import { type TSchema, Type } from '@sinclair/typebox'
import {
  boolean,
  count,
  credential,
  dollars,
  identifier,
  modelName,
  object,
  oneOf,
  optional,
  optionals,
  pattern,
  period,
  perMillion,
  record,
  unbroken,
  withDefault,
} from './field-types.ts'
import { type DialectField, defaultBaseUrl, PROVIDER_DIALECTS, takersOf } from './provider-dialects.ts'

/** Milliseconds until the first byte of the body of an answer. A whole answer takes longer to begin than a stream. */
export const FIRST_BYTE_MS = { stream: 60_000, whole: 600_000 } as const

const HEADER_NAME = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"

/** Headers by their names; the values may be credentials. */
export const headers = (description: string) =>
  record(
    HEADER_NAME,
    'is not the name of a header',
    Type.String({
      writeOnly: true,
      pattern: '^[\\t\\x20-\\x7e]*$',
      patternErrorMessage: 'must be printable ASCII',
      maxLength: 8192,
      description: 'The value of the header',
    }),
    { description },
  )

const quoted = (dialects: readonly string[]) => dialects.map((dialect) => `\`${dialect}\``).join(', ')

/** The description, prefixed with the dialects that take the field unless all do. */
const of = (field: DialectField, description: string) => {
  const takers = takersOf(field)
  if (takers.length === PROVIDER_DIALECTS.length) return description
  return `Only for ${quoted(takers)}: ${description}`
}

/** Absent is `auto`: most providers have no choice, and their entries show none. */
const CHAT_APIS = ['auto', 'chat', 'responses'] as const
const CHAT_API_WORDS =
  '`chat` is Chat Completions, `responses` the Responses API, and `auto`, the default, is Chat Completions unless ' +
  "the model needs Responses for the request, by its name at OpenAI or by the server's rejections"

const dialectFields = optionals({
  api_key: credential(
    of('api_key', 'The API key. Leave it out if the server needs none, or if other credentials are given'),
  ),
  api_version: unbroken(of('api_version', 'the `api-version` of every request')),
  api: oneOf(CHAT_APIS, of('api', `by which API chat requests are sent. ${CHAT_API_WORDS}`)),
  region: pattern(
    '^[a-z0-9-]{1,32}$',
    'must be the name of a region, such as eu-west-1',
    of('region', 'the AWS region'),
  ),
  access_key_id: credential(
    of('access_key_id', 'the AWS access key id. Give it with `secret_access_key`, instead of `api_key`'),
  ),
  secret_access_key: credential(of('secret_access_key', 'the AWS secret access key')),
  credentials: Type.Literal('default', {
    description: of(
      'credentials',
      'the credentials of the machine in place of a key: for `bedrock` an instance role, container role or web ' +
        'identity, for `azure` a managed identity or workload identity, for `vertex` the application default ' +
        'credentials: the metadata server, or the file that GOOGLE_APPLICATION_CREDENTIALS names',
    ),
  }),
  session_token: credential(of('session_token', 'the session token of temporary AWS credentials')),
  project: pattern('^[a-z0-9.:-]{1,100}$', 'must be the id of a project', of('project', 'the Google Cloud project')),
  location: pattern(
    '^[a-z0-9-]{1,32}$',
    'must be a region, such as europe-west1, or global',
    of('location', 'a region, such as `europe-west1`, or `global`'),
  ),
  service_account: Type.String({
    writeOnly: true,
    minLength: 1,
    maxLength: 16_384,
    description: of(
      'service_account',
      `the JSON of a key of a service account, usually "\${file:PATH}". Instead of \`credentials\``,
    ),
  }),
}) satisfies Readonly<Record<DialectField, TSchema>>

const WITHOUT_ADDRESS = PROVIDER_DIALECTS.filter((dialect) => defaultBaseUrl(dialect, {}) === '')

const spendCapacity = object(
  {
    day: optional(dollars('the most in a UTC day')),
    month: optional(dollars('the most in a UTC month')),
    total: optional(dollars('the most ever')),
  },
  { description: 'What may be spent on it', minProperties: 1 },
)

/** Limits over all organisations, workers and nodes. */
const capacity = (whose: string) =>
  optional(
    object(
      {
        requests_per_minute: optional(count('Requests in a minute')),
        tokens_per_minute: optional(count('Tokens in a minute, input and output together')),
        concurrent_requests: optional(count('Requests that run at the same time')),
        spend: optional(spendCapacity),
      },
      {
        description:
          `What ${whose} gives to all organisations, workers and nodes together. A request passes over a target ` +
          'without room, and [waits](routing.md#limits-of-providers) if there is no other',
        minProperties: 1,
      },
    ),
  )

export const provider = object(
  {
    dialect: oneOf(PROVIDER_DIALECTS, 'The API that the provider speaks'),
    base_url: optional(
      unbroken(
        'The address, without the path of an endpoint. ' +
          `Required for ${quoted(WITHOUT_ADDRESS)}; the other dialects have a default`,
      ),
    ),
    ...dialectFields,
    limits: capacity('the provider'),
    connect_timeout_ms: period('The longest time to look up the name and connect', 3000),
    first_byte_timeout_ms: optional(
      period(
        'The longest time until the first byte of the body of an answer. ' +
          `The default is ${FIRST_BYTE_MS.stream} for streams and ${FIRST_BYTE_MS.whole} for whole answers`,
      ),
    ),
    idle_timeout_ms: period('The longest silence within a stream', 60_000),
    total_timeout_ms: period('The longest time for a whole answer or stream', 3_600_000),
    headers: optional(headers("Headers that weir sends with every request to this provider. They override weir's own")),
    propagate_trace: boolean(
      'Sends `traceparent` and `tracestate` to this provider, so that its spans belong to the same trace. ' +
        'Needs `tracing`',
      false,
    ),
  },
  { description: 'A provider: its API, address, credential and timeouts' },
)

const target = object(
  {
    provider: identifier('The name of a provider in `providers`'),
    model: pattern(
      '^[^\\x00-\\x1f\\x7f]{1,256}$',
      'must be 1 to 256 characters without control characters',
      "The provider's own name of the model. For `azure` it is the deployment; for `vertex`, Claude's begin with " +
        '`claude`, and all others are served in the API of Gemini',
    ),
    api: optional(oneOf(CHAT_APIS, "For this target, in place of the provider's `api`")),
    limits: capacity('the target'),
    weight: optional(
      Type.Number({
        minimum: 0,
        maximum: 1_000_000,
        description:
          'With `spread: weighted`, its share of new conversations in proportion to the weights of the others. ' +
          'The default is 1; a target of weight 0 is a fallback only',
      }),
    ),
  },
  { description: 'One model of one provider' },
)

/** The prices of tokens, each with its words. */
const tokenPrices = optionals({
  input: perMillion('Input. Chat models need it'),
  cached_input: perMillion('Input that the provider read from its cache. Without it, the price of `input`'),
  cache_write: perMillion('Input that the provider wrote to its cache. Without it, the price of `input`'),
  cache_write_1h: perMillion(
    'Input that the provider wrote to its cache for an hour. Without it, the price of `cache_write`',
  ),
  output: perMillion('Output, reasoning included. Chat models need it'),
  audio_input: perMillion('Input that is audio, if the provider reports it apart. Without it, the price of `input`'),
})

const above = Type.Array(
  object(
    { input_tokens: count('More input tokens than this'), ...tokenPrices },
    { description: 'Prices of the whole request. `input` and `output` that are left out are those of a shorter one' },
  ),
  { minItems: 1, maxItems: 16, description: 'Prices of requests with more input, cached input included' },
)

/** Names of service tiers, as providers have them. */
const TIER_NAME = '^[A-Za-z0-9._-]{1,32}$'
const TIER_WORDS = 'is not the name of a service tier'
const tierName = (description: string) => pattern(TIER_NAME, 'must be 1 to 32 letters, digits or ._-', description)

const tier = object(
  {
    factor: optional(
      Type.Number({
        minimum: 0,
        maximum: 1000,
        description: 'Multiplies the prices of the model, those of `above` included. Instead of prices',
      }),
    ),
    ...tokenPrices,
    above: optional(above),
  },
  {
    description:
      'Prices of one tier: each of its own, or one `factor`. Without `above`, they grow with the length of the input ' +
      'as those of the model do',
  },
)

const FIELD_VALUE = '^[a-z_]{1,64}:[A-Za-z0-9._-]{1,64}$'
const TOOL_KIND = '^[a-z][a-z_]{0,63}(?:_[0-9]{1,3}g)?$'

const fieldPrice = object(
  { factor: Type.Number({ minimum: 0, maximum: 1000, description: 'Multiplies all prices of tokens of the request' }) },
  { description: 'What a value of a field costs' },
)

const thousandCalls = Type.Number({
  minimum: 0,
  maximum: 10_000,
  description: 'US dollars for 1,000 calls of the tool',
})

const IMAGE_ROW = '^(?:\\*|[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]{1,32})$'

const price = object(
  {
    ...tokenPrices,
    ...optionals({
      above: above,
      tiers: record(TIER_NAME, TIER_WORDS, tier, {
        description: "Prices by the provider's service tier, which the answer names",
      }),
      tier_aliases: record(TIER_NAME, TIER_WORDS, tierName('The tier that it stands for'), {
        description: 'Other names of tiers: alias and tier',
      }),
      default_tier: tierName(
        'The tier of requests that name none, or `auto`, if the account has another one than the base tier',
      ),
      image: Type.Number({
        minimum: 0,
        maximum: 10_000,
        description: 'US dollars for one generated image. Only for image models, instead of token prices',
      }),
      images: record(
        IMAGE_ROW,
        'must be quality:size, or *',
        Type.Number({ minimum: 0, maximum: 10_000, description: 'US dollars for one image' }),
        {
          description:
            'US dollars for one generated image by `quality:size` (`high:1536x1024`), and `*` for all others. In ' +
            'place of `image`',
        },
      ),
      fields: record(FIELD_VALUE, 'is not a field and its value, such as speed:fast', fieldPrice, {
        description: 'Fields of requests that change the price, by name and value, such as `speed:fast`',
      }),
      tools: record(TOOL_KIND, 'is not the type of a tool, such as web_search', thousandCalls, {
        description: "The provider's own tools, by their type without a date, such as `web_search`",
      }),
      as_of: pattern(
        '^\\d{4}-\\d{2}-\\d{2}$',
        'must be a date such as 2026-11-01',
        'The day of the price list that it is from',
      ),
    }),
  },
  {
    description:
      'Prices in US dollars per million tokens, as providers publish them. ' +
      'A model without a price cannot be used under a spend limit',
  },
)

const promptCache = object(
  {
    key: boolean('Passes `prompt_cache_key` to the provider', false),
    explicit: boolean('Passes cache marks (`cache_control`) to the provider', false),
    ttls: withDefault(
      Type.Array(oneOf(['5m', '1h'], 'A lifetime of cache entries'), {
        uniqueItems: true,
        description: 'The lifetimes that cache marks may ask for. Needs `explicit: true`',
      }),
      [],
    ),
  },
  { description: 'Which controls of prompt caching weir passes to the providers of the model' },
)

export const model = object(
  {
    name: modelName(
      'The public name, which callers use. `auto` is reserved. A name that ends in `*` (`anthropic/*`) stands for ' +
        'all names that begin so; then `model` of its targets ends in `*`, too',
    ),
    aliases: withDefault(
      Type.Array(modelName('Another name of the model'), {
        uniqueItems: true,
        description: 'Other names that callers may use. The model list does not show them',
      }),
      [],
    ),
    targets: Type.Array(target, {
      minItems: 1,
      description: 'The models of providers that serve this model. weir tries them in order until one answers',
    }),
    spread: oneOf(
      ['order', 'weighted'],
      'How requests are spread over the targets. `order` tries them as they are listed; `weighted` gives each ' +
        'conversation a target by `weight` and tries the others after it',
      'order',
    ),
    fallbacks: withDefault(
      Type.Array(modelName('A public name'), {
        uniqueItems: true,
        description:
          'Public names of models to try after the targets, if the key may use them. weir does not follow their ' +
          'own fallbacks',
      }),
      [],
    ),
    ...optionals({
      price: price,
      context_window: count(
        'Tokens of input and output together. `auto` and fallbacks skip the model if a request does not fit; ' +
          'for a request under its own name the provider decides',
      ),
      max_output_tokens: count(
        'The most output tokens that the model can produce. weir lowers a higher limit of a caller to it',
      ),
    }),
    default_output_tokens: count('The output limit of a Responses or Messages request that sets none', 4096),
    supports: withDefault(
      Type.Array(
        oneOf(
          ['tools', 'images', 'documents', 'structured_output', 'image_generation', 'embeddings'],
          'Something that the model can do',
        ),
        {
          uniqueItems: true,
          description:
            'What the model can do: `tools` and `images` (as input) for chat models, ' +
            '`documents` for those that take them though weir does not know it, ' +
            '`structured_output` for those that follow a schema though weir does not know it, ' +
            '`image_generation` for models of the image endpoints, `embeddings` for models of `POST /v1/embeddings`',
        },
      ),
      [],
    ),
    prompt_cache: withDefault(promptCache, {}),
  },
  { description: 'A model under its public name' },
)
