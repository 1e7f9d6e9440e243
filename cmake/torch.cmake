# The installed torch as two imported targets, torch_cpp and torch_python.
#
# Not find_package(Torch): that one asks for the CUDA toolkit when torch was built with CUDA, and we need none. Torch
# is located, not imported, so a stale build of ours cannot break the build of its successor.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.util as u, pathlib, re\nd = pathlib.Path(u.find_spec('torch').origin).parent\nv = re.search(r\"__version__ = '([^']+)'\", (d / 'version.py').read_text())\nprint(d, v.group(1), sep=';')"
  OUTPUT_VARIABLE TORCH_FOUND_AT OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE TORCH_MISSING)
if(TORCH_MISSING)
  message(FATAL_ERROR "No torch in ${Python_EXECUTABLE}: install the torch to build for, then build again without isolation.")
endif()
list(GET TORCH_FOUND_AT 0 TORCH_DIR)
list(GET TORCH_FOUND_AT 1 TORCH_VERSION)
message(STATUS "Building for torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_cpp INTERFACE)
target_include_directories(torch_cpp SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(torch_cpp INTERFACE ${TORCH_DIR}/lib)
target_link_libraries(torch_cpp INTERFACE torch torch_cpu c10)

add_library(torch_py INTERFACE)
target_link_libraries(torch_py INTERFACE torch_cpp torch_python Python::Module)
