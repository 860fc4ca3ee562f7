/** The schemas of image answers. They have the provider's format, with the public name of the model. */

import { Type } from '@sinclair/typebox'
import { type Components, choice } from '../schema-parts.ts'

const open = { additionalProperties: true }

const image = {
  b64_json: Type.Optional(Type.String({ description: 'The image as base64.' })),
  url: Type.Optional(Type.String({ description: 'An address of the image, from models that give one.' })),
  revised_prompt: Type.Optional(Type.String({ description: 'The prompt as the provider changed it.' })),
}

const settings = {
  background: Type.Optional(Type.String()),
  output_format: Type.Optional(Type.String()),
  quality: Type.Optional(Type.String()),
  size: Type.Optional(Type.String()),
  usage: Type.Optional(
    Type.Object(
      {
        input_tokens: Type.Optional(Type.Integer()),
        output_tokens: Type.Optional(Type.Integer()),
        total_tokens: Type.Optional(Type.Integer()),
      },
      { ...open, description: 'The tokens, from providers that report them.' },
    ),
  ),
}

function completed(type: string) {
  return Type.Object(
    { type: Type.Literal(type), ...image, created_at: Type.Unknown({ description: 'Unix seconds.' }), ...settings },
    { ...open, description: 'One whole image. The event of the last image has the usage of all.' },
  )
}

export const imagesAnswerComponents: Components = {
  Images: Type.Object(
    {
      created: Type.Optional(Type.Integer({ description: 'Unix seconds.' })),
      data: Type.Optional(Type.Array(Type.Object(image, open), { description: 'The images.' })),
      model: Type.Optional(Type.String({ description: 'The public name of the model, if the provider names one.' })),
      ...settings,
    },
    { ...open, description: "The provider's answer, unchanged but for the name of the model." },
  ),
  ImageGenerationCompletedEvent: completed('image_generation.completed'),
  ImageEditCompletedEvent: completed('image_edit.completed'),
  ImageEvent: choice(
    'type',
    {
      'image_generation.completed': 'ImageGenerationCompletedEvent',
      'image_edit.completed': 'ImageEditCompletedEvent',
    },
    'One event of an image stream: a line `event: TYPE`, a line `data: JSON` and an empty line.',
  ),
}
