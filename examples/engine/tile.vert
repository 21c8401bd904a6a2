#version 450
// A corner of a tile: its position in the frame, and the tile's first pixel.
layout(location = 0) in vec2 position;
layout(location = 1) in ivec2 origin;
layout(location = 0) flat out ivec2 first_pixel;

void main() {
    gl_Position = vec4(position, 0, 1);
    first_pixel = origin;
}
