#version 450
// Integers, so that a frame can be compared with one that the processor has drawn.
layout(set = 0, binding = 0) uniform constants { uvec4 tint; };
layout(set = 1, binding = 0) uniform usampler2D tile;
layout(set = 2, binding = 0) uniform usampler2D backdrop;
layout(location = 0) flat in ivec2 first_pixel;
layout(location = 0) out uvec4 color;

void main() {
    ivec2 pixel = ivec2(gl_FragCoord.xy);
    color = (texelFetch(tile, pixel - first_pixel, 0) ^ texelFetch(backdrop, pixel, 0) ^ tint) & 255u;
}
