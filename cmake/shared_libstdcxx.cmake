# Fails if the compiler links libstdc++ statically into shared libraries.
#
# Libraries of this project are loaded into the same process as torch's, which use the shared libstdc++. A second copy
# has separate locale state and crashes when a number is formatted into an error message.
include_guard(GLOBAL)

function(check_shared_libstdcxx)
  set(flags "${CMAKE_CXX_COMPILER_ARG1} ${CMAKE_CXX_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}")
  set(checked "${CMAKE_CXX_COMPILER} ${flags}")
  if("${checked}" STREQUAL "${SHARED_LIBSTDCXX_CHECKED}")
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/CMakeFiles/shared_libstdcxx.cpp)
  set(library ${CMAKE_BINARY_DIR}/CMakeFiles/shared_libstdcxx.so)
  file(WRITE ${source} "#include <sstream>\nstd::string text(double n) { std::ostringstream s; s << n; return s.str(); }\n")
  separate_arguments(arguments UNIX_COMMAND "${flags}")
  separate_arguments(standard_libraries UNIX_COMMAND "${CMAKE_CXX_STANDARD_LIBRARIES}")
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} ${arguments} -fPIC -shared ${source} -o ${library} ${standard_libraries}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} cannot link a small shared library:\n${output}")
  endif()
  # The names of needed libraries are in the string table.
  file(STRINGS ${library} needed REGEX "^libstdc\\+\\+\\.so")
  if(NOT needed)
    message(FATAL_ERROR
      "The compiler ${CMAKE_CXX_COMPILER} does not link shared libraries with the shared libstdc++ (its flags: ${flags}). "
      "torch uses libstdc++.so, and a second copy of it in the same process crashes as soon as a number is formatted into an "
      "error message. Remove -static-libstdc++ from CXXFLAGS and LDFLAGS, or build with a compiler that links the shared one: "
      "CC=/usr/bin/gcc CXX=/usr/bin/g++")
  endif()
  set(SHARED_LIBSTDCXX_CHECKED "${checked}" CACHE INTERNAL "The compiler and flags that passed the libstdc++ check")
endfunction()

check_shared_libstdcxx()
