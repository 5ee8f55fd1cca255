# Included by llama.cpp's CMakeLists.txt wherever it is built here. GCC is not told (by its own header) that AMX's sizes of registers are read from memory, takes
# what llama.cpp writes there for dead, and the first product ends the process by SIGILL.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fno-tree-dse -fno-dse)
endif()
