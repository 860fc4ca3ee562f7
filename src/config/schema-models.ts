/** The part of the file that says which models there are, where they can be had and what they cost. */

import { type TSchema, Type } from '@sinclair/typebox'
import {
  count,
  credential,
  identifier,
  modelName,
  object,
  oneOf,
  optional,
  pattern,
  period,
  perMillion,
  unbroken,
} from './field-types.ts'
import { type DialectField, defaultBaseUrl, PROVIDER_DIALECTS, takersOf } from './provider-dialects.ts'

const HEADER_NAME = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"

const headers = Type.Record(
  Type.String({ pattern: HEADER_NAME }),
  Type.String({
    pattern: '^[\\t\\x20-\\x7e]*$',
    patternErrorMessage: 'must be printable ASCII',
    maxLength: 8192,
    description: 'Its value',
  }),
  {
    description: "Sent with every request; they win over the gateway's own",
    additionalProperties: false,
    propertyNames: { pattern: HEADER_NAME, patternErrorMessage: 'is not the name of a header' },
  },
)

/** The description, prefixed with the dialects that take the field unless all do. */
const of = (field: DialectField, description: string) => {
  const takers = takersOf(field)
  return takers.length === PROVIDER_DIALECTS.length ? description : `${takers.join(', ')}: ${description}`
}

const dialectFields = {
  api_key: optional(credential(of('api_key', 'The credential; absent where it needs none, or another is given'))),
  api_version: optional(unbroken(of('api_version', 'the api-version of every request'))),
  region: optional(
    pattern('^[a-z0-9-]{1,32}$', 'must be the name of a region, such as eu-west-1', of('region', 'the AWS region')),
  ),
  access_key_id: optional(credential(of('access_key_id', 'the AWS access key id'))),
  secret_access_key: optional(credential(of('secret_access_key', 'the AWS secret access key'))),
  session_token: optional(credential(of('session_token', 'the session token of temporary credentials'))),
} satisfies Readonly<Record<DialectField, TSchema>>

const WITHOUT_ADDRESS = PROVIDER_DIALECTS.filter((dialect) => defaultBaseUrl(dialect, '') === '').join(', ')

export const provider = object(
  {
    dialect: oneOf(PROVIDER_DIALECTS, 'Which API the provider speaks'),
    base_url: optional(
      unbroken(
        `Its address, up to and without the path of an endpoint. Needed for ${WITHOUT_ADDRESS}; the others have a default`,
      ),
    ),
    ...dialectFields,
    connect_timeout_ms: optional(period('The longest wait for a connection', 3000)),
    first_byte_timeout_ms: optional(
      period('The longest wait for the head of an answer. Unless set: 60000 for streams and 600000 for whole answers'),
    ),
    idle_timeout_ms: optional(period('The longest silence within a stream', 60_000)),
    total_timeout_ms: optional(period('The longest that an answer may take as a whole', 3_600_000)),
    headers: optional(headers),
  },
  { description: 'A provider: who to ask and with which credential' },
)

const target = object(
  {
    provider: identifier('The name of a provider of this file'),
    model: pattern(
      '^[^\\x00-\\x1f\\x7f]{1,256}$',
      'must be 1 to 256 characters without control characters',
      "The provider's own name of the model; azure: the deployment",
    ),
  },
  { description: 'A place that the model can be had from' },
)

const price = object(
  {
    input: optional(perMillion('input')),
    cached_input: optional(perMillion('input that was read from a cache; the price of input unless set')),
    cache_write: optional(perMillion('input that was written to a cache; the price of input unless set')),
    cache_write_1h: optional(
      perMillion('input that was written to a cache for an hour; that of cache_write unless set'),
    ),
    output: optional(perMillion('output')),
    image: optional(Type.Number({ minimum: 0, maximum: 10_000, description: 'US dollars an image' })),
  },
  { description: 'What the model costs. A model without a price cannot be used where a spend limit applies' },
)

export const model = object(
  {
    name: modelName('The public name; `auto` is reserved'),
    aliases: optional(
      Type.Array(modelName('Another name for it'), {
        uniqueItems: true,
        description: 'Other names that callers may write; they are not listed',
      }),
    ),
    targets: Type.Array(target, {
      minItems: 1,
      description: 'Where the model can be had from, tried in order until one answers',
    }),
    fallbacks: optional(
      Type.Array(modelName('A public name'), {
        uniqueItems: true,
        description:
          'Other models to try after the targets, where the key may use them. Their own fallbacks are not followed',
      }),
    ),
    price: optional(price),
    context_window: optional(
      count(
        'Tokens of input and output together. Automatic selection passes a model over whose window is too small; under its own name the provider decides',
      ),
    ),
    max_output_tokens: optional(
      count('The most output that the model gives; a higher limit of a caller is lowered to it'),
    ),
    default_output_tokens: optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'The output limit where a Responses or Messages caller names none',
        default: 4096,
      }),
    ),
    supports: optional(
      Type.Array(
        oneOf(
          ['tools', 'images', 'image_generation'],
          'tools and images: a chat model. image_generation: a model of the image endpoints',
        ),
        {
          uniqueItems: true,
          description: 'What the model can do',
        },
      ),
    ),
    prompt_cache: optional(
      object(
        {
          key: optional(Type.Boolean({ description: 'prompt_cache_key is passed on', default: false })),
          explicit: optional(Type.Boolean({ description: 'cache_control is passed on', default: false })),
          ttls: optional(
            Type.Array(oneOf(['5m', '1h'], 'A time to live'), {
              uniqueItems: true,
              description: 'The TTLs that cache_control may ask for',
            }),
          ),
        },
        { description: 'How the model caches prompts; not at all unless set' },
      ),
    ),
  },
  { description: 'A model under its public name' },
)
