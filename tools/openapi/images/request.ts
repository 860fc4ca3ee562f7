/** The schemas of image requests: generations as JSON, edits as JSON or as a form. */

import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ImagesBody } from '../../../src/dialects/images/schema.ts'
import { anyOf, type Components, ignored, optional } from '../schema-parts.ts'

const checked = ImagesBody.properties

const model = {
  ...checked.model,
  description: 'A name from `GET /v1/models` of a model that makes images, or an alias.',
}

const common: TProperties = {
  model,
  prompt: Type.String({ description: 'What the images show.' }),
  n: Type.Optional({ ...checked.n, description: 'How many images; 1 without it.' }),
  size: Type.Optional({ ...checked.size, description: 'Such as `1024x1024`. The provider decides which sizes exist.' }),
  quality: Type.Optional({ ...checked.quality, description: 'Such as `low` or `high`. The provider decides.' }),
  background: Type.Optional(Type.Unknown({ description: '`transparent`, `opaque` or `auto`.' })),
  output_format: Type.Optional(Type.Unknown({ description: '`png`, `jpeg` or `webp`.' })),
  output_compression: Type.Optional(Type.Unknown({ description: 'For `jpeg` and `webp`: 0 to 100.' })),
  moderation: Type.Optional(Type.Unknown({ description: '`low` or `auto`.' })),
  response_format: Type.Optional(
    Type.Unknown({ description: '`url` or `b64_json`, for models that have the choice.' }),
  ),
  style: Type.Optional(Type.Unknown({ description: '`vivid` or `natural`, for models that have the choice.' })),
  user: Type.Optional(Type.Unknown({ description: 'An id of your end user, passed on.' })),
  stream: Type.Optional({
    ...checked.stream,
    description: 'True: one `completed` event for each image, sent when all images are made.',
  }),
  partial_images: ignored('A stream has no partial images.'),
}

const address = Type.String({
  description: 'A `data:` URL with base64, or an `https` URL of a public host. Files by id are a 400.',
})

const forbidden = { not: { $ref: '#/components/schemas/ForbiddenFields' } }

/** Providers differ in the fields of edits, so all others are passed on, too. */
const editFields: TProperties = {
  ...common,
  images: optional(
    Type.Array(Type.Object({ image_url: address }), { maxItems: 1024 }),
    'The images to edit, if the provider takes them as JSON.',
  ),
  mask: Type.Optional(Type.Object({ image_url: address }, { description: 'The part of the image to change.' })),
}

const file = (description: string): TSchema => Type.Unsafe({ type: 'string', format: 'binary', description })

const form: TProperties = {
  ...common,
  n: Type.Optional(Type.Integer({ minimum: 1, maximum: 10, description: 'How many images; 1 without it.' })),
  size: Type.Optional(Type.String({ description: 'Such as `1024x1024`. The provider decides which sizes exist.' })),
  quality: Type.Optional(Type.String({ description: 'Such as `low` or `high`. The provider decides.' })),
  stream: Type.Optional(Type.Boolean({ description: '`true`: one `completed` event for each image.' })),
  image: anyOf([file('One image.'), Type.Array(file('An image.'))], 'The image to edit; several as `image[]`.'),
  mask: Type.Optional(file('The part of the image to change, as its transparent pixels.')),
}

export const imagesRequestComponents: Components = {
  ImageGenerationRequest: Type.Object(common, {
    ...forbidden,
    description: 'A request for images from a prompt. Fields that are not listed are ignored.',
  }),
  ImageEditRequest: Type.Object(editFields, {
    ...forbidden,
    additionalProperties: true,
    description: 'A request for images from a prompt and other images. Fields that are not listed are passed on.',
  }),
  ImageEditForm: Type.Object(form, {
    ...forbidden,
    additionalProperties: true,
    description: 'The same as a form, as SDKs send it. Fields that are not listed are passed on.',
  }),
}
