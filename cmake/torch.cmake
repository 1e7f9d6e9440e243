# The installed torch as two interface targets, torch_cpp and torch_py.
#
# Not find_package(Torch), which requires the CUDA toolkit if torch was built with CUDA. Torch is located without
# importing it: `import torch` would load an installed torch_openreg, and a broken one would break this build.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.util as u, pathlib, re\nd = pathlib.Path(u.find_spec('torch').origin).parent\nv = re.search(r\"__version__ = '([^']+)'\", (d / 'version.py').read_text())\nprint(d, v.group(1), sep=';')"
  OUTPUT_VARIABLE TORCH_FOUND_AT OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE TORCH_MISSING)
if(TORCH_MISSING)
  message(FATAL_ERROR "torch is not installed in ${Python_EXECUTABLE}. Install the torch version to build for, then build with --no-build-isolation.")
endif()
list(GET TORCH_FOUND_AT 0 TORCH_DIR)
list(GET TORCH_FOUND_AT 1 TORCH_VERSION)
if(TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${TORCH_VERSION} in ${TORCH_DIR} is too old: torch_openreg needs 2.11 or later.")
endif()
message(STATUS "Building for torch ${TORCH_VERSION} in ${TORCH_DIR}")

add_library(torch_cpp INTERFACE)
target_include_directories(torch_cpp SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(torch_cpp INTERFACE ${TORCH_DIR}/lib)
target_link_libraries(torch_cpp INTERFACE torch torch_cpu c10)

add_library(torch_py INTERFACE)
target_link_libraries(torch_py INTERFACE torch_cpp torch_python Python::Module)
