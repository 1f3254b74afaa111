# A toolchain file: aarch64 by Debian's cross compiler and its libraries for that architecture (tools/setup.sh aarch64), run by qemu-user.
# Without qemu's -L: /usr/aarch64-linux-gnu has a dynamic loader of another glibc than the libc.so.6 that programs then find, and the
# first pthread_create of such a pair never returns.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
endif()
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
