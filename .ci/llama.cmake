# Included by llama.cpp's CMakeLists.txt when llama-cpp-python builds it, which would build all it has in common with its programs, the half of it, and use nothing.
set(LLAMA_BUILD_COMMON OFF)
include(${CMAKE_CURRENT_LIST_DIR}/../scripts/llama.cmake)
